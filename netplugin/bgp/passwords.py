"""The passwords of BGP peers (TCP-MD5, RFC 2385), in a file of this host.

In comes the file that `--bgp-password-file` names; out come connections to peers, signed where the
file has a password (`ofnet.bgp.connection`). Each line is a peer's address and its password, with
white space between them; empty lines and those that begin with `#` say nothing. The file is read
before each connection, so that a changed password needs no restart.

The original has no such setting. The password is not in the BGP object, because that is stored in
clear and shown to everybody who may read objects.
"""

import stat
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from core.errors import PeerFailed
from ofnet.bgp.connection import LONGEST_PASSWORD, Streams, dial
from ofnet.bgp.peering import Address, Peering


class PasswordFile:
    """The file; without one, no peer has a password."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    async def dial(self, peering: Peering) -> Streams:
        """Return a connection to the peer, signed if it has a password.

        Raises OSError if it fails, and PeerFailed if the file cannot be used.
        """
        return await dial(peering, self.password(peering.peer))

    def password(self, peer: Address) -> bytes:
        """Return the password of a peer, b"" if it has none. Raises PeerFailed."""
        if self._path is None:
            return b""
        try:
            mode = self._path.stat().st_mode
            lines = self._path.read_bytes().splitlines()
        except OSError as exc:
            raise PeerFailed(f"BGP password file {self._path}: {exc.strerror}") from exc
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PeerFailed(f"BGP password file {self._path}: others may read it, chmod it to 600")
        return dict(self._entries(lines)).get(peer, b"")

    def _entries(self, lines: list[bytes]) -> Iterator[tuple[Address, bytes]]:
        for number, line in enumerate(lines, 1):
            words = line.split(maxsplit=1)
            if not words or words[0].startswith(b"#"):
                continue
            try:
                address = ip_address(words[0].decode())
            except ValueError as exc:
                raise self._malformed(number) from exc
            password = words[1].strip() if len(words) > 1 else b""
            if not 0 < len(password) <= LONGEST_PASSWORD:
                raise self._malformed(number)
            yield address, password

    def _malformed(self, number: int) -> PeerFailed:
        # the line itself is not shown: it may be a password
        what = f"an address and a password of 1 to {LONGEST_PASSWORD} bytes"
        return PeerFailed(f"BGP password file {self._path}: line {number} must be {what}")
