"""`/info` of a follower: the leader's, with a member about the follower that was asked. Pure.

The original's members stay what they are at the leader, since scripts find the leader by them.
"""

import json
from typing import Final

from core.outside_json import read_json

FORWARDED_BY: Final = "forwarded-by"
"""The address of the follower that forwarded the request; absent where the leader was asked."""


def is_info(method: str, path: str) -> bool:
    """Return whether a request asks for `/info`."""
    return (method, path) == ("GET", "/info")


def with_follower(body: bytes, own: str) -> bytes:
    """Return the leader's answer with the follower's address; one that is no object stays."""
    try:
        info = read_json(body)
    except ValueError:
        return body
    if not isinstance(info, dict):
        return body
    return json.dumps({**info, FORWARDED_BY: own}, sort_keys=True, separators=(",", ":")).encode()
