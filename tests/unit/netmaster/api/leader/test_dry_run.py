"""Whether a change of v1 is to be tried only."""

import pytest

from core.errors import Malformed
from netmaster.api.leader import dry_run


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", False),
        ("dryRun=false", False),
        ("dryRun=true", True),
        ("dryRun=false&dryRun=true", True),
        ("&".join(["a=1"] * 100), False),
        ("&".join([*["a=1"] * 100, "dryRun=true"]), True),
        ("a=%ff&dryRun=true", True),
    ],
)
def test_other_parameters_are_ignored_as_in_v1(query: str, asked: bool) -> None:
    assert dry_run.is_asked(query) is asked


@pytest.mark.parametrize("query", ["dryRun=", "dryRun=1", "dryRun=true&dryRun=perhaps"])
def test_a_dry_run_is_asked_for_clearly(query: str) -> None:
    with pytest.raises(Malformed):
        dry_run.is_asked(query)
