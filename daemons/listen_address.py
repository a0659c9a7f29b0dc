"""The address of a listener, as flags name it."""

from dataclasses import dataclass
from typing import Final

ANY_ADDRESS: Final = "0.0.0.0"  # nosec B104 - the original's default for netmaster's REST
"""Stands for all addresses of the host. A daemon without TLS warns of its open ports."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen at; port 0 stands for any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
