"""The address of a listener, as flags name it."""

from dataclasses import dataclass
from typing import Final

from core.addresses import authority, ipv6

ANY_ADDRESS: Final = "0.0.0.0"  # nosec B104 - the original's default for netmaster's REST
"""Stands for all addresses of the host. A daemon without TLS warns of its open ports."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen at; port 0 stands for any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return authority(self.host, self.port)


def split(text: str) -> tuple[str, str] | None:
    """Split `host:port`, `[IPv6]:port` or `:port` into host and port; None for any other text."""
    host, colon, port = text.partition(":")
    if text.startswith("["):
        host, colon, port = text[1:].partition("]:")
        try:
            ipv6(host)
        except ValueError:
            return None
    return None if not colon or ":" in port else (host, port)
