"""Network namespaces of pods, and how a thread of the agent gets into one and out again.

`netplugin.kernel.pod_links` works inside. It is the thread that enters, for the moment: pyroute2's
own way forks. Nothing here knows what is done there.
"""

import ctypes
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from core.errors import HostError

log = logging.getLogger(__name__)

_CLONE_NEWNET: Final = 0x4000_0000
_NS_GET_NSTYPE: Final = 0xB703
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def opened(path: str) -> Iterator[int]:
    """Open a pod's namespace. Raises HostError when the path is none, or is the host's own."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as exc:
        raise HostError(f"namespace {path}: {exc}") from exc
    try:
        if not _is_netns(descriptor):
            raise HostError(f"{path} is not a network namespace")
        if os.fstat(descriptor).st_ino == Path("/proc/thread-self/ns/net").stat().st_ino:
            raise HostError(f"{path} is the host's own network namespace")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Put this thread into a namespace for the body."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(namespace)
        try:
            yield
        finally:
            try:
                _setns(home)
            except OSError:
                # this thread would work on a pod's links in the belief they are the host's
                log.critical("cannot return to the host's network namespace", exc_info=True)
                os._exit(1)
    finally:
        os.close(home)


def alive(path: str) -> bool:
    """Tell whether the path is, or may be, that of a network namespace, not the host's own."""
    try:
        with opened(path):
            return True
    except HostError as exc:
        # there may be too many open files, say
        return isinstance(exc.__cause__, OSError) and exc.__cause__.errno not in _NOT_THERE


def _is_netns(descriptor: int) -> bool:
    try:
        return fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:
        return False


def _setns(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
