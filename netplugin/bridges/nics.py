"""Which of the host's network cards can be its uplink: those the host does not live on.

What Open vSwitch takes over no longer brings the host its own packets: an address or the default
route on an uplink cuts the host off, and with it whoever would have to put that right. Facts come
from `netplugin.kernel.host_links`; next is `netplugin.bridges.uplinks`.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from core.errors import UsageError
from core.logs import fields
from netplugin.kernel.host_links import Nic

log = logging.getLogger(__name__)

_REMEDY: Final = (
    "on Open vSwitch it would no longer work; move it to another card, "
    "or name another card with --vlan-uplinks"
)


def check_cards(cards: Iterable[Nic], attached: Collection[str]) -> None:
    """Raise UsageError for a card that the host itself uses.

    Where it is attached to Open vSwitch already the harm is done, and to end would do more: that
    is a warning.
    """
    for card in cards:
        for what in _held(card):
            if card.name not in attached:
                raise UsageError(f"uplink {card.name} has {what} of this host: {_REMEDY}")
            log.warning("uplink belongs to this host", extra=fields(port=card.name, error=what))


def _held(card: Nic) -> list[str]:
    held = [f"the address {address}" for address in card.addresses]
    return [*held, "the default route"] if card.default_route else held
