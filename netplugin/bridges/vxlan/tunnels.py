"""The tunnel ports of this host: one for each address of another host. Converges, never replays.

In come the peers (`netplugin.world.peers`) and OVSDB's own report; out go ports on the vxlan
bridge, and to the World (`netplugin.world.bridges.bridge_state`) those that are ready.
`netplugin.bridges.uplink.port_reconciler` calls it after every change of either, and when a port
that Open vSwitch could not add is to be tried again (`netplugin.bridges.vxlan.port_retries`).
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Final

from core.collections.latest import Latest
from core.errors import ContivError, SwitchRefused
from core.ids import HostLabel
from core.logs import fields
from core.retry import FaultBoard, Pace
from netplugin.bridges.vxlan.port_retries import PACE, PortRetries
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from netplugin.world.peers import Address, end_of
from ofnet.world import Bridge, Vtep

log = logging.getLogger(__name__)

_AT_ONCE: Final = 50
"""Ports that are added together. Each change makes ovs-vswitchd go through all ports, and what
comes while it does so is one more change. Ports of pods wait behind these for so long."""


_APART: Final = (
    "one of the two has tunnels by IPv4 alone, the other by IPv6 alone: give one of them "
    "addresses of both with --vtep-ip"
)


def tunnel_ports(rows: Iterable[PortRow]) -> list[PortRow]:
    """Return the tunnel ports among a bridge's ports.

    Those of the original are told by their names: it does not mark them.
    """
    return [
        row
        for row in rows
        if port_names.VTEP_HOST_ID in row.external_ids
        or (row.type == "vxlan" and port_names.is_vtep(row.name))
    ]


def by_remote(created: Iterable[PortRow]) -> dict[str, PortRow]:
    """Return tunnel ports by the address at their other end.

    A second port to one address, and one without an address, has its own name for a key. No peer
    matches that key, so the port is obsolete.
    """
    found: dict[str, PortRow] = {}
    for row in sorted(created, key=lambda row: row.name):
        remote = row.options.get("remote_ip", row.name)
        found[row.name if remote in found else remote] = row
    return found


def vtep_options(remote: Address, vxlan_port: int) -> dict[str, str]:
    """Return the options of the tunnel port towards an address.

    Source: docs/original/ofnet-ovsdb.md §3.
    """
    return {
        "remote_ip": str(remote),
        "key": "flow",
        "tos": "inherit",
        "dst_port": str(vxlan_port),
    }


class Tunnels:
    """The tunnel ports. One per agent."""

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        world: WorldBuilder,
        vxlan_port: int,
        board: FaultBoard,
        retries: Pace = PACE,
    ) -> None:
        self._ovsdb = ovsdb
        self._world = world
        self._vxlan_port = vxlan_port
        self._board = board
        self._retries = PortRetries(pace=retries)
        self._last_ofport = 0
        self._logged: dict[str, str | None] = {}
        self._by_remote = Latest(by_remote)
        self._settled: object = None
        self._had: frozenset[str] = frozenset()
        self._lost: frozenset[str] = frozenset()
        """Addresses whose ports were there after the last turn, and are not now."""
        """The inputs of `converge` when it last found nothing to do, None after any change."""

    def next_retry(self) -> float | None:
        """Return the seconds until a port is to be tried again, None if all have been added."""
        return self._retries.next_due()

    async def converge(self) -> None:
        """Make the ports match the peers once; set those that are ready on the World.

        One that is refused stops no other. Raises SwitchUnavailable or SwitchRefused.
        """
        # A port belongs to an address, not to a host label: two records with one address (a host
        # that was given another label) must share a port, for Open vSwitch refuses a second tunnel
        # to the same address. A peer that moves gets a port to its new address first; the old one
        # is removed afterwards.
        peers = self._world.peers.tunnel_ends()
        tunnels = self._rows()
        # Most changes of OVSDB are those of pods' ports. To look at each peer then would make an
        # ADD among a thousand hosts several times as dear. Both mappings are the same objects
        # until one of theirs changes.
        inputs = peers, tunnels, self._world.complete, self._world.peers.apart()
        if inputs == self._settled and self._retries.next_due() != 0:
            return
        self._settled = None
        self._retries.observe(tunnels.values())
        missing = list(self._missing(peers, tunnels))
        self._lost = self._had - tunnels.keys()
        failures: dict[Address, ContivError] = {}
        try:
            await self._add_all(missing, failures)
        finally:
            self._update_world(peers, failures)
        # A host whose record has not been read yet looks like one that was removed (ADR 11).
        obsolete = _obsolete(peers.values(), tunnels) if self._world.complete else {}
        for remote, row in obsolete.items():
            await self._ovsdb.delete_port(Bridge.VXLAN, row.name)
            log.info("tunnel port removed", extra=fields(address=remote, port=row.name))
        self._had = frozenset(self._rows())
        for failure in failures.values():
            raise failure
        if not missing and not obsolete:
            self._settled = inputs

    def _rows(self) -> Mapping[str, PortRow]:
        return self._by_remote(tunnel_ports(self._ovsdb.ports(Bridge.VXLAN).values()))

    def _missing(
        self, peers: Mapping[HostLabel, Address], tunnels: Mapping[str, PortRow]
    ) -> Iterator[tuple[HostLabel, Address, PortSpec]]:
        """Yield the ports to be added or written anew, with their peers."""
        names = set(self._ovsdb.ports(Bridge.VXLAN))
        numbers = set(self._ovsdb.numbers(Bridge.VXLAN))
        for remote, host in _first_of_each(peers).items():
            found = tunnels.get(str(remote))
            options = vtep_options(remote, self._vxlan_port)
            if found is None or found.options != options or self._retries.take(found.name):
                name = port_names.vtep_name(remote, names) if found is None else found.name
                ofport = None if found is None else found.ofport
                if ofport is None or ofport <= 0:
                    ofport = port_names.next_vtep_ofport(self._last_ofport, numbers)
                    self._last_ofport = ofport
                names.add(name)
                numbers.add(ofport)
                spec = PortSpec(
                    name=name,
                    type="vxlan",
                    ofport_request=ofport,
                    external_ids={port_names.VTEP_HOST_ID: host},
                    options=options,
                )
                yield host, remote, spec

    async def _add_all(
        self,
        missing: Sequence[tuple[HostLabel, Address, PortSpec]],
        failures: dict[Address, ContivError],
    ) -> None:
        """Add ports, some at a time; note those that are refused. Raises SwitchUnavailable."""
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            added = (self._ovsdb.add_port(Bridge.VXLAN, spec) for _, _, spec in some)
            outcomes = await asyncio.gather(*added, return_exceptions=True)
            for (host, remote, spec), outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, SwitchRefused):
                    failures[remote] = outcome
                elif outcome is not None:
                    raise outcome
                else:
                    about = fields(peer=host, address=remote, port=spec.name)
                    if str(remote) in self._lost:
                        log.warning("somebody deleted a tunnel port, added again", extra=about)
                    else:
                        log.info("tunnel port added", extra=about)

    def _update_world(
        self, peers: Mapping[HostLabel, Address], failures: Mapping[Address, ContivError]
    ) -> None:
        tunnels = self._rows()
        ready, faults = {}, {}
        for host, address in peers.items():
            row = tunnels.get(str(address))
            if row is not None and row.ofport is not None and row.ofport > 0:
                ready[host] = self._vtep(host, address, row.ofport)
            else:
                why = row.error if row is not None else failures.get(address)
                faults[host] = str(why or "its port is not ready")
            if row is not None:
                self._log_state(host, row)
        faults |= dict.fromkeys(sorted(self._world.peers.apart()), _APART)
        self._board.set_faults(
            "tunnels", (f"no tunnel to {peer}: {reason}" for peer, reason in faults.items())
        )
        self._world.vxlan.set_vteps(ready)

    def _vtep(self, host: HostLabel, address: Address, ofport: int) -> Vtep:
        record = self._world.peers.record(host)
        four = None if record is None else end_of(record, {4})
        known = four if isinstance(four, IPv4Address) and four != address else None
        return Vtep(host=host, ip=address, ofport=ofport, address4=known)

    def _log_state(self, host: HostLabel, row: PortRow) -> None:
        """Log an error that OVSDB reports of a port, and its end, once each."""
        if row.error == self._logged.get(row.name):
            return
        self._logged[row.name] = row.error
        if row.error is None:
            log.info("tunnel port recovered", extra=fields(peer=host, port=row.name))
        else:
            about = fields(peer=host, port=row.name, error=row.error)
            log.warning("tunnel port error", extra=about)


def _obsolete(remotes: Iterable[Address], tunnels: Mapping[str, PortRow]) -> dict[str, PortRow]:
    """Return the tunnel ports to none of the addresses, by the address at their other end."""
    wanted = {str(remote) for remote in remotes}
    return {remote: row for remote, row in tunnels.items() if remote not in wanted}


def _first_of_each(peers: Mapping[HostLabel, Address]) -> dict[Address, HostLabel]:
    """Return the hosts by address; of several with one address, the first by label."""
    return {address: host for host, address in sorted(peers.items(), reverse=True)}
