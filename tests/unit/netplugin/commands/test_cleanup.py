"""The command line of `netplugin cleanup`."""

import pytest

from core.errors import HostError
from netplugin import settings
from netplugin.commands import cleanup


def test_it_takes_the_flags_of_the_agent_and_of_preflight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding of docs/notes/trust.md §18."""
    given: list[str] = []
    for flag in settings.FLAGS:
        given += [f"--{flag.names[0]}"] if flag.switch else [f"--{flag.names[0]}", "1"]

    def refuse(_path: object) -> None:
        raise HostError("reached")

    monkeypatch.setattr(cleanup, "_refuse_beside_an_agent", refuse)
    with pytest.raises(HostError, match="reached"):
        cleanup.run([*given, "--dry-run"], {})
