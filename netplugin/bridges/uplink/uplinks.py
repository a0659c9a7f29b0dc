"""The host's uplink: the network cards that connect the vlan bridge to the physical VLANs.

One card is a trunk port named like the card; several are one bond, `uplinkPort`, with LACP
(docs/original/ofnet-ovsdb.md §3). `converge` makes the port what the command line says. It sets the
OpenFlow number of each card on the World, and whether frames may leave by the card now. Ports that
this agent did not create are left alone. Next is `netplugin.world.bridges.bridge_state`.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from core.logs import fields
from netplugin.ovsdb import BondMember, Ovsdb, PortRow, PortSpec
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.world import Bridge, FwdMode, Uplink

log = logging.getLogger(__name__)

UPLINK_ENDPOINT_ID: Final = "uplinkPort"
"""What the original writes into the external ids of an uplink's port."""

BOND: Final = "uplinkPort"
"""The bond's name; the original's bears no external ids."""

_NO_MAC: Final = "00:00:00:00:00:00"


def is_uplink(row: PortRow) -> bool:
    """Return whether a port is an uplink created by this agent or by the original."""
    return row.name == BOND or row.external_ids.get(port_names.ENDPOINT_ID) == UPLINK_ENDPOINT_ID


def cards(row: PortRow) -> tuple[BondMember, ...]:
    """Return the cards of an uplink's port."""
    return row.members or (
        BondMember(
            name=row.name,
            ofport=row.ofport,
            mac_in_use=row.mac_in_use,
            link_state=row.link_state,
            lacp_current=None,
        ),
    )


def attached_cards(rows: Iterable[PortRow]) -> frozenset[str]:
    """Return the names of the cards that are on the bridge as its uplink."""
    return frozenset(card.name for row in rows if is_uplink(row) for card in cards(row))


def usable(row: PortRow, order: Sequence[str] = ()) -> frozenset[str]:
    """Return the names of the cards that frames may leave by.

    They have a link. In a bond, they also have an LACP partner. If no card has one, it is one card
    alone: the active one of Open vSwitch, or the first with a link of `order`, in which flows try
    the cards.
    """
    linked = [card for card in cards(row) if card.link_state == "up"]
    if not row.members:
        return frozenset(card.name for card in linked)
    if row.active_mac in {None, _NO_MAC}:
        return frozenset()  # the bond has not chosen an active card yet
    if any(card.lacp_current for card in row.members):
        return frozenset(card.name for card in linked if card.lacp_current)
    # Without LACP, the switch at the other end takes the cards for separate ports. A MAC address
    # that sent by two of them would move to and fro there, so a single card is used.
    if order:
        names = {card.name for card in linked}
        return frozenset([name for name in order if name in names][:1])
    return frozenset(card.name for card in linked if card.mac_in_use == row.active_mac)


def unusable(row: PortRow, used: Collection[str]) -> dict[str, str]:
    """Return why frames may not leave by the cards that are not used."""
    return {
        card.name: "no LACP partner" if card.link_state == "up" else "no link"
        for card in cards(row)
        if card.name not in used
    }


class Uplinks:
    """The uplink of one host. `macs` has the kernel's MAC address of each card."""

    def __init__(self, macs: Mapping[str, str], ovsdb: Ovsdb, world: WorldBuilder) -> None:
        self._macs = macs
        self._ovsdb = ovsdb
        self._world = world
        self._spec = _spec(tuple(macs)) if macs else None
        self._used: frozenset[str] = frozenset()
        self.faults: Mapping[str, str] = {}
        """Why a card is not used, by its name, as of the last `converge`."""

    async def converge(self) -> None:
        """Make the port match the command line, once. Raises SwitchUnavailable, SwitchRefused."""
        try:
            await self._update_port()
        finally:
            self._update_world()

    async def _update_port(self) -> None:
        rows = self._ovsdb.ports(Bridge.VLAN)
        obsolete = {name for name, row in rows.items() if is_uplink(row)}
        if self._spec is not None:
            # Only the cards are compared: a port with the right ones keeps the settings that an
            # administrator has made on it. The old port goes in the transaction that adds the new
            # one, because a card cannot be on two ports, and without a gap in between.
            if not _has_cards(rows.get(self._spec.name), self._spec):
                await self._ovsdb.add_port(Bridge.VLAN, self._spec, replaces=obsolete)
                about = fields(port=self._spec.name, cards=list(self._macs))
                log.info("uplink added", extra=about)
            obsolete.discard(self._spec.name)
        for name in obsolete & self._ovsdb.ports(Bridge.VLAN).keys():
            await self._ovsdb.delete_port(Bridge.VLAN, name)
            log.info("uplink removed", extra=fields(port=name))

    def _update_world(self) -> None:
        rows = self._ovsdb.ports(Bridge.VLAN)
        row = rows.get(self._spec.name) if self._spec is not None else None
        used = usable(row, self._order()) if row is not None else frozenset()
        absent = dict.fromkeys(self._macs, "not on the bridge")
        self.faults = unusable(row, used) if row is not None else absent
        if used != self._used:
            self._used = used
            log.info("uplink cards in use changed", extra=fields(cards=sorted(used)))
        self._world.vlan.set_uplinks(list(self._ready(row, used)) if row is not None else [])

    def _order(self) -> tuple[str, ...]:
        """Return the order in which flows try the cards; in bridge mode Open vSwitch decides."""
        return tuple(self._macs) if self._world.forwarding.fwd_mode is FwdMode.ROUTING else ()

    def _ready(self, row: PortRow, used: frozenset[str]) -> Iterator[Uplink]:
        """Yield the cards in the command line's order; all have the MAC address of the first."""
        mac = next(iter(self._macs.values()))
        numbers = {card.name: card.ofport for card in cards(row)}
        for name in self._macs:
            ofport = numbers.get(name)
            if ofport is not None and ofport > 0:
                yield Uplink(ofport=ofport, mac=mac, up=name in used)


def _spec(names: tuple[str, ...]) -> PortSpec:
    ids = {port_names.ENDPOINT_ID: UPLINK_ENDPOINT_ID}
    bonded = len(names) > 1
    return PortSpec(
        name=BOND if bonded else names[0],
        ofport_request=port_names.FIRST_UPLINK,
        external_ids=ids,
        members=names if bonded else (),
    )


def _has_cards(row: PortRow | None, spec: PortSpec) -> bool:
    """Return whether a port has the cards it should have."""
    return row is not None and {card.name for card in row.members} == set(spec.members)
