"""Unit tests start no program: one that does fails, whoever's code starts it.

What needs a program is in `tests/integration`, below the same path.
"""

import logging
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


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """Give the root logger, and put it back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("asyncio", "aiohttp.server")}
    yield root
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, its_level in quiet.items():
        logging.getLogger(name).setLevel(its_level)
