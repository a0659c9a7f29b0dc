"""Unit tests start no program: one that does fails, whoever's code starts it.

What needs a program is in `tests/integration`, below the same path.
"""

import sys
from collections.abc import Iterator

import pytest

STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.system", "os.exec"})


class Guard:
    """An audit hook, which the interpreter keeps until it ends."""

    on = False

    def __call__(self, event: str, _args: object) -> None:
        """Fail for an event that starts a program, during a unit test."""
        if self.on and event in STARTS:
            raise AssertionError(f"a unit test starts a program ({event})")


GUARD = Guard()
sys.addaudithook(GUARD)


@pytest.fixture(autouse=True)
def no_program() -> Iterator[None]:
    """Have the guard watch each test."""
    GUARD.on = True
    yield
    GUARD.on = False
