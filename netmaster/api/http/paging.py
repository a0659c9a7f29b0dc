"""Pages of a list: how many items one has, and the token that the next page begins behind. Pure."""

import base64
import binascii
from typing import Final

from core.errors import Malformed
from netmaster.api.http.queries import number

LIMIT: Final = 500
"""Items of a page unless a request asks for fewer or more."""
MOST: Final = 5000

PAGED: Final = {
    "limit": f"how many at most, 1 to {MOST}; {LIMIT} by default",
    "after": "`next` of the page before",
}


def token(key: str) -> str:
    """Return the continuation token of the last key of a page."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_of(text: str) -> str:
    """Return the key of a token. Raises Malformed for what is no token."""
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        found = key.decode()
    except (binascii.Error, ValueError) as exc:
        raise Malformed(f"parameter after={text} is not `next` of a page") from exc
    return found


def limit(text: str) -> int:
    """Return how many items a page may have. Raises Malformed."""
    return number("limit", text, 1, MOST)
