"""What a datapath cannot do that it does not tell: known by the release of Open vSwitch. Pure."""

import re
from collections.abc import Mapping
from typing import Final

_MENDED: Final[Mapping[tuple[int, int], int]] = {(2, 17): 8, (3, 0): 5, (3, 1): 3, (3, 2): 3}
"""The first release of each series without the fault; all series after the last one are."""


def ends_at_unchanged_addresses(release: str) -> bool:
    """Return whether `ovs-vswitchd` may end at a connection that is translated to what it was.

    The userspace datapath kept two entries for a translated connection. Where both have the same
    addresses, the second one is found once the first has expired, and an assertion fails:
    `conn->conn_type == CT_CONN_TYPE_DEFAULT` in `conn_update_state()` of lib/conntrack.c (Open
    vSwitch's commit 1116459b3ba8, "conntrack: Remove nat_conn introducing key directionality",
    removes both). A release that cannot be read counts as one with the fault.
    """
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", release)
    if not found:
        return True
    major, minor, patch = map(int, found.groups())
    series = major, minor
    return series <= max(_MENDED) and patch < _MENDED.get(series, patch + 1)
