"""`/info` of a follower: the leader's, with a member about the follower that was asked. Pure.

The original's members stay what they are at the leader, since scripts find the leader by them.
"""

import json
from collections.abc import Sequence
from typing import Final

from core.outside_json import read_json

FORWARDED_BY: Final = "forwarded-by"
"""The address of the follower that forwarded the request; absent where the leader was asked."""
FAULTS: Final = "faults"
"""What fails at the leader now; absent for nothing."""
FOLLOWER_FAULTS: Final = "forwarded-by-faults"
"""What fails at that follower; absent for nothing."""


def is_info(method: str, path: str) -> bool:
    """Return whether a request asks for `/info`."""
    return (method, path) == ("GET", "/info")


def with_follower(body: bytes, own: str, faults: Sequence[str] = ()) -> bytes:
    """Return the leader's answer with the follower's address and faults.

    One that is no object stays.
    """
    try:
        info = read_json(body)
    except ValueError:
        return body
    if not isinstance(info, dict):
        return body
    further = {FOLLOWER_FAULTS: [*faults]} if faults else {}
    told = {**info, FORWARDED_BY: own, **further}
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
