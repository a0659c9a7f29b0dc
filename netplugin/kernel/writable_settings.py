"""Makes the kernel's settings writable for this process, where a container has them read-only.

Runtimes mount /proc/sys read-only in containers that are not privileged; the agent makes settings
of links there. A process with CAP_SYS_ADMIN may mount it anew: that changes the container's own
mount, never the host's. Who calls this: `netplugin.startup.daemon`, `netplugin.commands.cleanup`.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

from core.errors import HostError

SETTINGS: Final = Path("/proc/sys")

_MS_REMOUNT: Final = 0x20
_MS_BIND: Final = 0x1000
_KEPT: Final = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC
"""What the mount forbids besides; these flags are the same for statvfs and mount."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def make_writable(path: Path = SETTINGS) -> None:
    """Mount what is mounted read-only at a path anew; otherwise do nothing.

    Raises HostError if this process may not.
    """
    flags = os.statvfs(path).f_flag
    if not flags & os.ST_RDONLY:
        return
    wanted = _MS_REMOUNT | _MS_BIND | (flags & _KEPT)
    if _libc.mount(None, os.fsencode(path), None, wanted, None):
        raise HostError(
            f"{path} is read-only and cannot be mounted anew: {os.strerror(ctypes.get_errno())}; "
            "a container needs CAP_SYS_ADMIN, and no profile of AppArmor that forbids mounts"
        )
