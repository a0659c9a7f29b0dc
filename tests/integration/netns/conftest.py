"""A namespace that stands for the host's."""

import ctypes
import os
from collections.abc import Iterator

import pytest

from tests.bed.janitor import Janitor
from tests.bed.netns import Namespace, fresh_name


def enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.setns(descriptor, 0x40000000) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture
def host(janitor: Janitor) -> Iterator[Namespace]:
    """Put the test into a namespace that stands for the host's."""
    namespace = Namespace(fresh_name("host"), keeper=janitor).create()
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    inside = os.open(namespace.path, os.O_RDONLY)
    enter(inside)
    try:
        yield namespace
    finally:
        enter(home)
        os.close(inside)
        os.close(home)
        namespace.delete()
