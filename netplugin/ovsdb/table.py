"""The ports of the switch, updated row by row as the database changes (pure).

In come rows of the tables Bridge, Port and Interface, in any order and one change at a time; out
goes a `PortRow` for each port of a bridge. Only what changed is computed again: with some hundred
ports, building all of them for each change costs more than adding a pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from netplugin.ovsdb.rows import BondMember, PortRow

Id = TypeVar("Id")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts(Generic[Id]):
    """The part of a port that is in table Port."""

    name: str
    tag: int
    external_ids: Mapping[str, str]
    interfaces: tuple[Id, ...]
    active_mac: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceFacts:
    """The part of a port that is in table Interface."""

    name: str
    type: str
    ofport: int | None
    mac_in_use: str | None
    options: Mapping[str, str]
    error: str | None
    link_state: str | None
    policing_rate: int
    policing_burst: int
    lacp_current: bool | None = None
    mtu_request: int | None = None


class PortTable(Generic[Id]):
    """Assembles `PortRow`s from rows of three tables."""

    def __init__(self) -> None:
        self._ports: dict[Id, PortFacts[Id]] = {}
        self._interfaces: dict[Id, InterfaceFacts] = {}
        self._owner: dict[Id, Id] = {}
        self._members: dict[str, frozenset[Id]] = {}
        self._bridge: dict[Id, str] = {}
        self._by_name: dict[str, Id] = {}
        self._rows: dict[str, PortRow] = {}
        self._dirty: set[Id] = set()

    def id_of(self, name: str) -> Id | None:
        """Return the id of the row in table Port of that name."""
        return self._by_name.get(name)

    def bridge_of(self, name: str) -> str | None:
        """Return the bridge that holds the port of that name."""
        port = self._by_name.get(name)
        return None if port is None else self._bridge.get(port)

    def devices(self, bridge: str, name: str) -> tuple[str, ...]:
        """Return the names of the devices of a bridge's port, none if it has no such port."""
        if self.bridge_of(name) != bridge:
            return ()
        members = self._ports[self._by_name[name]].interfaces
        return tuple(self._interfaces[one].name for one in members if one in self._interfaces)

    def set_port(self, port: Id, facts: PortFacts[Id] | None) -> None:
        """Put a row of table Port; None removes it."""
        before = self._ports.pop(port, None)
        if before is not None:
            for interface in before.interfaces:
                self._owner.pop(interface, None)
            if self._by_name.get(before.name) == port:
                del self._by_name[before.name]
                self._rows.pop(before.name, None)
        if facts is not None:
            self._ports[port] = facts
            self._by_name[facts.name] = port
            self._owner.update(dict.fromkeys(facts.interfaces, port))
        self._dirty.add(port)

    def set_interface(self, interface: Id, facts: InterfaceFacts | None) -> None:
        """Put a row of table Interface; None removes it."""
        if facts is None:
            self._interfaces.pop(interface, None)
        else:
            self._interfaces[interface] = facts
        if interface in self._owner:
            self._dirty.add(self._owner[interface])

    def set_members(self, bridge: str, ports: frozenset[Id]) -> None:
        """Put the ports of a bridge; an empty set for a bridge that was removed."""
        before = self._members.pop(bridge, frozenset())
        for port in before - ports:
            if self._bridge.get(port) == bridge:
                del self._bridge[port]
        for port in ports - before:
            self._bridge[port] = bridge
        if ports:
            self._members[bridge] = ports
        self._dirty |= before ^ ports

    def rows(self) -> dict[str, PortRow]:
        """Return all ports by name, as a new dict."""
        for port in self._dirty:
            facts = self._ports.get(port)
            if facts is not None and self._by_name.get(facts.name) == port:
                row = self._row(port, facts)
                if row is None:
                    self._rows.pop(facts.name, None)
                else:
                    self._rows[facts.name] = row
        self._dirty.clear()
        return dict(self._rows)

    def _row(self, port: Id, facts: PortFacts[Id]) -> PortRow | None:
        bridge = self._bridge.get(port)
        interface = self._interfaces.get(facts.interfaces[0]) if facts.interfaces else None
        if bridge is None or interface is None:
            return None
        return PortRow(
            name=facts.name,
            bridge=bridge,
            type=interface.type,
            ofport=interface.ofport,
            tag=facts.tag,
            mac_in_use=interface.mac_in_use,
            external_ids=facts.external_ids,
            options=interface.options,
            error=interface.error,
            link_state=interface.link_state,
            policing_rate=interface.policing_rate,
            policing_burst=interface.policing_burst,
            members=self._bonded(facts),
            active_mac=facts.active_mac,
            mtu_request=interface.mtu_request,
        )

    def _bonded(self, facts: PortFacts[Id]) -> tuple[BondMember, ...]:
        if len(facts.interfaces) == 1:
            return ()
        found = (self._interfaces.get(interface) for interface in facts.interfaces)
        members = (
            BondMember(
                name=one.name,
                ofport=one.ofport,
                mac_in_use=one.mac_in_use,
                link_state=one.link_state,
                lacp_current=one.lacp_current,
            )
            for one in found
            if one is not None
        )
        return tuple(sorted(members, key=lambda member: member.name))
