"""Runs a program that finds no IPv6, as in a kernel that was booted with `ipv6.disable=1`.

In comes a command line; it and what it starts can make no socket of IPv6 and find no settings of
it. What it asks the kernel by netlink is answered all the same: hosts of a test disable IPv6 for
that (`net.ipv6.conf.all.disable_ipv6`).
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from pathlib import Path
from typing import Final

_HIDDEN: Final = 'mount -t tmpfs -o ro none /proc/sys/net/ipv6 && exec "$@"'
PREFIX: Final = (
    *("unshare", "--mount", "--propagation", "slave", "sh", "-c", _HIDDEN, "sh"),
    *(sys.executable, str(Path(__file__))),
)
"""The words that, put before a command, run it so."""
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
"""The number of the system call socket(2) by architecture."""
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _FIRST_ARGUMENT_AT = 0, 16


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def refuse_sockets() -> None:
    """Have socket(2) fail for IPv6 from now on, in this process and its children."""
    steps = [
        (_LOAD, 0, 0, _NUMBER_AT),
        (_EQUAL, 0, 3, _SOCKET[platform.machine()]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_EQUAL, 0, 1, socket.AF_INET6),
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((_NO_NEW_PRIVILEGES, 1, 0), (_SECCOMP, _FILTER, ctypes.byref(program))):
        if libc.prctl(*words, 0, 0):
            code_of = ctypes.get_errno()
            raise OSError(code_of, os.strerror(code_of))


if __name__ == "__main__":
    refuse_sockets()
    os.execvp(sys.argv[1], sys.argv[1:])
