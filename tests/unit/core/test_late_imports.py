"""Imports that fail for the moment."""

import errno

import pytest

from core.errors import HostError
from core.late_imports import importing


@pytest.mark.parametrize(
    "failure", [OSError(errno.EMFILE, "Too many open files"), ImportError("replaced")]
)
def test_a_module_that_cannot_be_read_is_an_error_that_was_foreseen(failure: Exception) -> None:
    with pytest.raises(HostError, match="of BGP cannot be loaded"), importing("BGP"):
        raise failure


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), importing("BGP"):
        raise ZeroDivisionError
