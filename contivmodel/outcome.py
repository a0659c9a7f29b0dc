"""What a netmaster's error says about the request: surely not done, or unknown.

The header `Contiv-Outcome` carries it. Standard library only, for `contivmodel.client_sync`.
"""

from enum import StrEnum
from typing import Final

HEADER: Final = "Contiv-Outcome"


class Outcome(StrEnum):
    """The outcome of a request that was answered with an error."""

    REFUSED = "refused"
    """Nothing was changed, and nothing will be."""
    ABSENT = "absent"
    """As REFUSED, because what the request names does not exist.

    The answer to a delete that is repeated after UNKNOWN: the first one was carried out.
    """
    UNKNOWN = "unknown"
    """The change may have been made, or may be made yet; ask again."""
