"""Encodes the question for a switch's description and reads its release. Pure.

`ofnet.channel.session` sends and receives; received bytes are untrusted, as in
`ofnet.channel.wire`.
"""

from typing import Final

from ofnet.channel import wire

_DESCRIPTION: Final = 0
_SIZE: Final = 1056
_SOFTWARE: Final = slice(wire.PARTS + 512, wire.PARTS + 768)
"""`ofp_desc` of OpenFlow 1.3.5, A.3.5.1: behind maker and hardware, the software's release."""


def request(xid: int) -> bytes:
    """Return the request for the description."""
    return wire.multipart_request(_DESCRIPTION, xid)


def releases(body: bytes) -> tuple[list[str], bool]:
    """Return the release in one part of a reply, and whether more parts follow.

    Raises MalformedOpenflow.
    """
    more = wire.has_more(body, _DESCRIPTION)
    if len(body) != wire.PARTS + _SIZE:
        raise wire.MalformedOpenflow(f"description of {len(body) - wire.PARTS} bytes")
    return [body[_SOFTWARE].partition(b"\0")[0].decode("ascii", "replace")], more
