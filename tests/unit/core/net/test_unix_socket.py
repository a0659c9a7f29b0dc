"""Whether somebody listens at a unix socket."""

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.net.unix_socket import is_served


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no file for the length of the body."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_in_doubt_somebody_listens(tmp_path: Path) -> None:
    door = tmp_path / "door"
    assert not is_served(door)
    with no_more_files():
        assert is_served(door)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        assert not is_served(door)
        listener.listen()
        assert is_served(door)
    assert not is_served(door)
