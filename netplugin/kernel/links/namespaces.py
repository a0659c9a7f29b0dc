"""Network namespaces of pods: opens them, and moves a thread of the agent into one and back.

`netplugin.kernel.links.pod_links` works inside. A namespace belongs to a thread, so a worker thread
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
_MS_BIND: Final = 0x1000
_MNT_DETACH: Final = 2
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})

_OF_THREAD: Final = Path("/proc/thread-self/ns/net")
"""The namespace of the calling thread."""

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
        if os.fstat(descriptor).st_ino == _OF_THREAD.stat().st_ino:
            raise HostError(f"{path} is the host's own network namespace")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def home() -> Iterator[int]:
    """Open the host's own namespace, that of the calling thread."""
    descriptor = os.open(_OF_THREAD, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Move the calling thread into a namespace during the body.

    The body must not await: another coroutine on this thread would run in the namespace.
    """
    home = os.open(_OF_THREAD, os.O_RDONLY | os.O_CLOEXEC)
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


def unnamed() -> int:
    """Create a namespace that has no name; return its file descriptor. Raises HostError.

    It lives as long as a descriptor of it, or a socket in it, is open in some process.
    """
    home = os.open(_OF_THREAD, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with inside(home):  # which brings the thread back home
            if _libc.unshare(_CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise HostError(f"cannot create a network namespace: {os.strerror(number)}")
            return os.open(_OF_THREAD, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(home)


def keep(namespace: int, path: Path) -> None:
    """Give a namespace (a file descriptor) a file, by which it outlives this process.

    A file without a namespace may be there already: a mount ends with its container. Raises
    HostError.
    """
    source = f"/proc/self/fd/{namespace}".encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as exc:
        raise HostError(f"namespace {path}: {exc}") from exc
    if _libc.mount(source, os.fsencode(path), None, _MS_BIND, None) != 0:
        number = ctypes.get_errno()
        raise HostError(
            f"cannot mount a network namespace at {path}: {os.strerror(number)}; the agent needs "
            "the capability SYS_ADMIN"
        )


def kept(path: Path) -> bool:
    """Return whether a file stands for a network namespace. Raises HostError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise HostError(f"namespace {path}: {exc}") from exc
    try:
        return _is_netns(descriptor)
    finally:
        os.close(descriptor)


def give_up(path: Path) -> None:
    """Remove the file of a namespace, which ends when nobody else has it open; it may be missing.

    Raises HostError.
    """
    if _libc.umount2(os.fsencode(path), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        if number not in {errno.EINVAL, errno.ENOENT}:  # not a mount, not there
            raise HostError(f"cannot unmount {path}: {os.strerror(number)}")
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        raise HostError(f"cannot remove {path}: {exc}") from exc


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
