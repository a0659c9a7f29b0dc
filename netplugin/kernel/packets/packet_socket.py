"""Packet sockets that receive only what a filter of Linux (BPF, socket(7)) takes.

In come instructions; out goes a socket. What the filter refuses costs the kernel some comparisons
and this process nothing.
"""

import ctypes
import socket
import struct
from collections.abc import Sequence
from typing import Final

from core.errors import HostError

Instruction = tuple[int, int, int, int]
"""Code, how many instructions to skip if a comparison holds and if not, and a number."""
ETH_P_ALL: Final = 0x0003
_INSTRUCTION: Final = struct.Struct("@HBBI")
_PROGRAM: Final = struct.Struct("@HP")
_ATTACH_FILTER: Final = 26
"""SO_ATTACH_FILTER (socket(7)), which Python's module does not name."""


def filtered(
    instructions: Sequence[Instruction], *, link: str = "", protocol: int = ETH_P_ALL
) -> socket.socket:
    """Return a socket that does not block, for frames of one link, or of all. Raises HostError.

    `protocol` is a type of Ethernet; what this host sends is seen by one for all of them alone.
    Without a link, what came before the filter was there is received as well.
    """
    try:
        kind = 0 if link else socket.htons(protocol)
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, kind)
    except OSError as exc:
        raise HostError(f"no packet socket: {exc.strerror}") from exc
    code = b"".join(_INSTRUCTION.pack(*one) for one in instructions)
    kept = ctypes.create_string_buffer(code, len(code))
    described = _PROGRAM.pack(len(instructions), ctypes.addressof(kept))
    try:
        made.settimeout(0)
        made.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)
        if link:
            made.bind((link, protocol))
    except OSError as exc:
        made.close()
        raise HostError(f"packets cannot be filtered: {exc.strerror}") from exc
    return made
