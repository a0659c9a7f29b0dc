"""Network namespaces of pods: opens them, and moves a thread of the agent into one and back.

`netplugin.kernel.pod_links` works inside. A namespace belongs to a thread, so a worker thread
enters it with setns(2); pyroute2 would fork a process for that.
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
    """Open a pod's namespace. Raises HostError for another file or the host's own namespace."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as exc:
        raise HostError(f"namespace {path}: {exc}") from exc
    try:
        if not _is_netns(descriptor):
            raise HostError(f"{path} is not a network namespace")
        # A runtime with host networking passes the host's own namespace: configuring it as a pod
        # would cut this host off.
        if os.fstat(descriptor).st_ino == Path("/proc/thread-self/ns/net").stat().st_ino:
            raise HostError(f"{path} is the host's own network namespace")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Move the calling thread into a namespace during the body.

    The body must not await: another coroutine on this thread would run in the namespace.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _setns(namespace)
        try:
            yield
        finally:
            try:
                _setns(home)
            except OSError:
                # The thread returns to the pool and would work on a pod's links instead of the
                # host's. There is no way to repair that; a restart of the agent is safe (ADR 17).
                log.critical("cannot return to the host's network namespace", exc_info=True)
                os._exit(1)
    finally:
        os.close(home)


def alive(path: str) -> bool:
    """Return False only if the path is certainly not a pod's network namespace."""
    try:
        with opened(path):
            return True
    except HostError as exc:
        # Other errors, such as too many open files, say nothing about the namespace. Only a path
        # that certainly does not exist counts as dead, since its endpoint is then deleted.
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
