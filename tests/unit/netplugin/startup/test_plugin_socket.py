"""The checks of a host as an agent has them: its own socket may be taken away."""

import socket
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from core.errors import HostError
from netplugin.diagnostics.host_checks import HostCheck
from netplugin.startup import host_checks
from tests.unit.netplugin.agent import Outside, running


async def test_a_socket_that_somebody_removed_is_a_fault(
    outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = tmp_path / "cni.sock"
    outside.settings = replace(outside.settings, cni_socket=door)
    built: list[HostCheck] = []
    monkeypatch.setattr(host_checks, "HostChecks", lambda checks, *_, **__: built.extend(checks))

    async with running(outside) as agent:
        host_checks.build_host_checks(agent.context, agent.clients, agent.dataplane, Mock())
        (probe,) = (one.probe for one in built if one.name == "plugin socket")
        with pytest.raises(HostError, match="restart netplugin"):
            await probe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(door))
            listener.listen()
            await probe()
            door.unlink()
            with pytest.raises(HostError, match="nobody listens at"):
                await probe()
