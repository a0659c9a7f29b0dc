"""Refuses records that daemons of an older release would misread, while some may run (ADR 24)."""

from core.errors import Conflict
from netmaster.view import View
from state.schema import IPV6_ALONE_SINCE


def check_ipv6(view: View, what: str, otherwise: str = "") -> None:
    """Raise Conflict for what has IPv6 in the place of IPv4, unless all daemons can read it."""
    if view.schema is not None and view.schema.version < IPV6_ALONE_SINCE:
        raise Conflict(
            f"{what} need the current release on all hosts and masters: upgrade them{otherwise}"
        )
