"""One tree of errors, each with its HTTP status and exit code."""

import pytest

from core import errors
from core.errors import ContivError

KINDS: list[type[ContivError]] = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ContivError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_of_the_tree_and_says_its_text(kind: type[ContivError]) -> None:
    failure = kind("network n1 does not exist")
    assert isinstance(failure, ContivError)
    assert str(failure) == "network n1 does not exist"
    assert kind.__doc__


def test_object_errors_are_500() -> None:
    assert {kind: kind.http_status for kind in KINDS if kind.http_status != 500} == {
        errors.NotSupported: 400,
        errors.PreconditionFailed: 412,
        errors.QuotaExceeded: 403,
    }


def test_a_wrong_command_line_ends_a_daemon_with_einval() -> None:
    assert {kind: kind.exit_code for kind in KINDS if kind.exit_code != 1} == {
        errors.UsageError: 22
    }


@pytest.mark.parametrize("kind", [errors.StoreUnavailable, errors.MasterUnavailable])
def test_an_unknown_outcome_is_said(
    kind: type[errors.StoreUnavailable | errors.MasterUnavailable],
) -> None:
    assert not kind("away").outcome_unknown
    assert kind("away", outcome_unknown=True).outcome_unknown
