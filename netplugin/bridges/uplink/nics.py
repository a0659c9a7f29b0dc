"""Which network cards can be the host's uplink: those that the host does not use itself.

A card on Open vSwitch no longer delivers packets to the host. An address or the default route on an
uplink would cut the host off from its administrator. Facts come from
`netplugin.kernel.links.host_links`; next is `netplugin.bridges.uplink.uplinks`.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from core.errors import UsageError
from core.logs import fields
from netplugin.kernel.links.host_links import Nic

log = logging.getLogger(__name__)

_REMEDY: Final = (
    "on Open vSwitch it would no longer work; move it to another card, "
    "or name another card with --vlan-uplinks"
)


def check_cards(cards: Iterable[Nic], attached: Collection[str]) -> None:
    """Raise UsageError for a card that the host itself uses; `attached` cards are logged only."""
    # A card on Open vSwitch is cut off already. An agent that refused to start because of it would
    # leave the host's pods without an agent as well.
    for card in cards:
        for what in _held(card):
            if card.name not in attached:
                raise UsageError(f"uplink {card.name} has {what} of this host: {_REMEDY}")
            about = fields(port=card.name, error=what)
            log.warning("uplink card is in use by this host", extra=about)


def _held(card: Nic) -> list[str]:
    held = [f"the address {address}" for address in card.addresses]
    return [*held, "the default route"] if card.default_route else held
