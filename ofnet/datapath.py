"""What a datapath cannot do that it does not tell: known by the release of Open vSwitch. Pure."""

from typing import Final

from core.releases import Mended, has_fault

_MENDED: Final[Mended] = {(2, 17): 8, (3, 0): 5, (3, 1): 3, (3, 2): 3}


def ends_at_unchanged_addresses(release: str) -> bool:
    """Return whether `ovs-vswitchd` may end at a connection that is translated to what it was.

    The userspace datapath kept two entries for a translated connection. Where both have the same
    addresses, the second one is found once the first has expired, and an assertion fails:
    `conn->conn_type == CT_CONN_TYPE_DEFAULT` in `conn_update_state()` of lib/conntrack.c (Open
    vSwitch's commit 1116459b3ba8, "conntrack: Remove nat_conn introducing key directionality",
    removes both). A release that cannot be read counts as one with the fault.
    """
    return has_fault(release, _MENDED)
