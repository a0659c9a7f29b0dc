"""Follows a packet on this host: through wanted flows, through the switch, to what is behind.

In come questions (`netplugin.trace.request`); out come answers as JSON: each look-up with its
owner, where the packet leaves, and the faults that were found on the way. The switch is asked by
`ofproto/trace`, which injects nothing, for the same look-ups; what it does otherwise is a fault.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import ContivError, Invalid, NotFound, SwitchUnavailable
from core.ids import EndpointKey, HostLabel
from netplugin.ovsdb.control_socket import SwitchCommands
from netplugin.trace import flow_reasons
from netplugin.trace.asides import Asides
from netplugin.trace.dataplane_checks import DataplaneChecks
from netplugin.trace.request import TraceRequest
from netplugin.world.kubernetes.kube_policies import KubePolicies
from ofnet.agent import BridgeAgent
from ofnet.flows import Flow
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_TABLE, Output
from ofnet.packets.packetin import PacketOut
from ofnet.tables import TableId, mode_of
from ofnet.trace import frames, packets, switch
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.journey import Exit, Journey, follow
from ofnet.trace.tracking import LookedUp
from ofnet.world import Bridge, LocalEndpoint, World

AT_ONCE: Final = 2
"""Traces at a time: each asks the switch several times, and packets of pods come first."""
_THROUGH_TABLES: Final = (Output(PORT_TABLE),)
TRIES: Final = 4
PAUSE: Final = 0.2
"""A switch that differs is asked again: changes may be on their way."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a packet comes in: the bridge with its World, the packet, and who sent it."""

    bridge: Bridge
    world: World
    packet: PacketFields
    sender: LocalEndpoint | None = None


class Tracer:
    """Answers questions about packets. One per agent; `host` is the label of this host.

    `asides` finds what is worth knowing beside a packet's way (`netplugin.trace.asides`).
    """

    def __init__(
        self,
        *,
        host: HostLabel,
        agents: Mapping[Bridge, BridgeAgent],
        control: SwitchCommands,
        checks: DataplaneChecks,
        policies: KubePolicies,
        asides: Asides | None = None,
        pause: float = PAUSE,
    ) -> None:
        self._host = host
        self._agents = agents
        self._control = control
        self._checks = checks
        self._policies = policies
        self._asides = asides
        self._pause = pause
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def trace(self, asked: TraceRequest) -> dict[str, Any]:
        """Return the answer to a question. Raises Invalid for one that cannot be answered."""
        async with self._turn:
            faults = [*self._unknown(asked)]
            entry = self._enter(asked)
            if isinstance(entry, str):
                about = await self._around(asked)
                return {"host": self._host, "faults": [entry, *about, *faults]}
            return await self._follow(asked, entry, faults)

    async def send(self, asked: TraceRequest, mark: bytes) -> None:
        """Send the packet of a question through its bridge's tables, with a mark at its end.

        Raises Invalid, and NotFound where the packet has no port to come in by.
        """
        entry = self._enter(asked)
        if isinstance(entry, str):
            raise NotFound(entry)
        agent = self._agents[entry.bridge]
        if not agent.connected:
            raise SwitchUnavailable(f"bridge {entry.bridge} has no OpenFlow session with the agent")
        try:
            data = frames.frame(entry.packet, mark)
        except ValueError as exc:
            raise Invalid(str(exc)) from exc
        agent.send(
            PacketOut(data=data, actions=_THROUGH_TABLES, in_port=entry.packet.number("in_port"))
        )

    # -- where it comes in ---------------------------------------------------------------------

    def _enter(self, asked: TraceRequest) -> _Entry | str:
        """Return where a packet comes in; text for what is missing there."""
        match asked.kind:
            case "endpoint":
                return self._of_endpoint(asked)
            case "host":
                return self._of_host(asked)
            case "tunnel":
                vtep = self._world(Bridge.VXLAN).vteps.get(HostLabel(asked.name))
                return (
                    self._at(Bridge.VXLAN, vtep.ofport, asked)
                    if vtep is not None
                    else f"no tunnel port to host {asked.name} on {Bridge.VXLAN}"
                )
            case "uplink":
                return self._at_uplink(asked)
            case _:
                if asked.bridge is None or not asked.name.isdecimal():
                    raise Invalid("port must be a number, with the bridge's name")
                return self._at(asked.bridge, int(asked.name), asked)

    def _at_uplink(self, asked: TraceRequest) -> _Entry | str:
        uplinks = self._world(Bridge.VLAN).uplinks
        if not uplinks:
            return f"{Bridge.VLAN} has no uplink"
        return self._at(Bridge.VLAN, uplinks[0].ofport, asked)

    def _of_endpoint(self, asked: TraceRequest) -> _Entry | str:
        for bridge in Bridge:
            world = self._world(bridge)
            endpoint = world.local.get(EndpointKey(asked.name))
            if endpoint is None or asked.talk is None:
                continue
            # ports of endpoints to their hosts are on one bridge, whichever the network is on
            beside = self._world(Bridge.VXLAN)
            by_access = packets.by_access(world, beside, endpoint, asked.talk)
            if by_access is not None:
                return _Entry(Bridge.VXLAN, beside, by_access)
            packet = packets.from_endpoint(world, endpoint, asked.talk)
            if packet is None:
                raise Invalid(f"endpoint {asked.name} has no IPv{asked.talk.to.version} address")
            return _Entry(bridge, world, packet, endpoint)
        return f"endpoint {asked.name} has no port here"

    def _of_host(self, asked: TraceRequest) -> _Entry | str:
        bridge = next(
            (one for one in Bridge if asked.endpoint in self._world(one).local), Bridge.VXLAN
        )
        world = self._world(bridge)
        if world.host_port is None:
            return f"the host has no port of its own on {bridge}"
        port, talk = world.host_port, asked.talk
        packet = packets.from_host(port, talk, asked.source) if talk else None
        if packet is None:
            raise Invalid("the host has no address of this family for its pods")
        return _Entry(bridge, world, packet)

    def _at(self, bridge: Bridge, port: int, asked: TraceRequest) -> _Entry:
        if asked.packet is None:
            raise Invalid("a packet is missing")
        world = self._world(bridge)
        sender = next((one for one in world.local.values() if one.ofport == port), None)
        return _Entry(bridge, world, asked.packet.put("in_port", port), sender)

    def _world(self, bridge: Bridge) -> World:
        return self._agents[bridge].world

    def _worlds(self) -> list[World]:
        return [agent.world for agent in self._agents.values()]

    def _unknown(self, asked: TraceRequest) -> Iterator[str]:
        """Yield what this host does not know of the endpoint that a packet is for."""
        if not asked.endpoint:
            return
        key, here = EndpointKey(asked.endpoint), asked.host == self._host
        if here and not any(key in world.local for world in self._worlds()):
            yield f"endpoint {key} has no port here"
        elif not here and not any(
            key in world.remote or key in world.local for world in self._worlds()
        ):
            yield f"endpoint {key} of host {asked.host} is not known here"

    async def _around(self, asked: TraceRequest) -> list[str]:
        """Return more about an entry that is missing."""
        found = [fault for bridge in Bridge for fault in self._checks.of_bridge(bridge)]
        if asked.kind == "endpoint":
            found += await self._checks.of_endpoint(EndpointKey(asked.name))
        return found

    # -- the way -------------------------------------------------------------------------------

    async def _follow(
        self, asked: TraceRequest, entry: _Entry, faults: list[str]
    ) -> dict[str, Any]:
        agent = self._agents[entry.bridge]
        wanted = await asyncio.to_thread(agent.desired.reader())
        flows = tuple(wanted.values())
        journey = await _journey(flows, entry.world, [*asked.before, entry.packet])
        faults += self._checks.of_bridge(entry.bridge)
        if entry.sender is not None:
            faults += await self._checks.of_endpoint(entry.sender.key)
            faults += [one async for one in self._neighbour(entry, entry.sender, flows)]
        faults += await self._differences(agent, journey)
        for leaving in journey.exits:
            faults += await self._checks.of_place(leaving.place, entry.world, leaving.port)
        faults += await self._not_towards(asked, entry, journey)
        return {
            "host": self._host,
            "bridge": str(entry.bridge),
            "mode": str(mode_of(entry.bridge, entry.world.fwd_mode)),
            "packet": packets.fields_of(entry.packet),
            "steps": [self._shown(agent, one) for one in journey.path],
            "exits": [_exit(one) for one in journey.exits],
            "faults": list(dict.fromkeys(faults)),
            "notes": await self._asides.of(asked) if self._asides is not None else [],
        }

    async def _neighbour(
        self, entry: _Entry, sender: LocalEndpoint, flows: Sequence[Flow]
    ) -> AsyncIterator[str]:
        """Yield what keeps an endpoint from the MAC address it has to send to."""
        name = "ipv4_dst" if "ipv4_dst" in entry.packet.fields else "ipv6_dst"
        to = entry.packet.get(name)
        if not isinstance(to, packets.Address):
            return
        asked = packets.neighbour_of(entry.world, sender, to)
        question = packets.question(sender, asked)
        if question is None:
            return
        journey = await _journey(flows, entry.world, [question])
        if not journey.exits:
            yield f"nobody answers endpoint {sender.key} which MAC address {asked} has"
        for fault in await self._differences(self._agents[entry.bridge], journey):
            yield f"question for the MAC address of {asked}: {fault}"

    async def _not_towards(self, asked: TraceRequest, entry: _Entry, journey: Journey) -> list[str]:
        """Return why a packet does not leave for the host that it is for, if its way is gone."""
        key = EndpointKey(asked.endpoint)
        if not asked.endpoint or key not in entry.world.remote:
            return []
        if any(one.place.name == asked.host for one in journey.exits):
            return []
        if entry.bridge is Bridge.VXLAN and HostLabel(asked.host) not in entry.world.vteps:
            return await self._checks.of_tunnel(asked.host, entry.world)
        return []

    async def _differences(self, agent: BridgeAgent, journey: Journey) -> list[str]:
        """Compare wanted and installed flows, after pending flow-mods; return differences."""
        found: list[str] = []
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(self._pause)
            try:
                found = [one async for one in self._asked(agent, journey)]
            except ContivError as exc:
                return [f"Open vSwitch cannot be asked: {exc}"]
            if not found:
                break
        return found

    async def _asked(self, agent: BridgeAgent, journey: Journey) -> AsyncIterator[str]:
        stretches = journey.stretches
        for number, stretch in enumerate(stretches):
            words = switch.command(str(agent.bridge), stretch, resumed=number > 0)
            answer = await self._control.call(*words)
            differs = switch.difference(stretch, switch.hits(answer))
            if differs is not None:
                yield self._differing(agent, differs)
                return
            last = number == len(stretches) - 1 and stretch[-1] is journey.path[-1]
            ported = any(one.port < PORT_CONTROLLER for one in journey.exits)
            if last and ported and (why := switch.refusal(answer)):
                yield f"Open vSwitch does not send the packet out: {why}"

    def _differing(self, agent: BridgeAgent, differs: switch.TraceDifference) -> str:
        wanted, found = differs
        if wanted.flow is None:
            there = found.flow if found is not None else "nothing"
            return f"the switch has a flow that is not wanted: {there}"
        why = flow_reasons.of(agent.desired.owner(wanted.flow.key), self._policies, agent.world)
        if wanted.flow.key in agent.sync.refused:
            why += f", refused: {agent.sync.refused[wanted.flow.key][1]}"
        known = {flow.cookie for flow in agent.desired.held.values()}
        strange = found is not None and found.cookie is not None and found.cookie not in known
        if strange and found is not None and found.table == wanted.table:
            if found.priority > wanted.flow.priority:
                return f"the switch has a flow that is not wanted: {found.flow}"
            return f"the switch lacks flow {wanted.flow} ({why}), it has {found.flow} instead"
        return f"the switch lacks flow {wanted.flow} ({why})"

    def _why(self, agent: BridgeAgent, one: LookedUp) -> str:
        """Return what a look-up is decided by; of rules that contradict each other, all."""
        if one.flow is None:
            return ""
        contrary = (other for other in one.others if other.instructions != one.flow.instructions)
        flows = (one.flow, *contrary)
        owners = (agent.desired.owner(flow.key) for flow in flows)
        return " or ".join(flow_reasons.of(owner, self._policies, agent.world) for owner in owners)

    def _shown(self, agent: BridgeAgent, one: LookedUp) -> dict[str, Any]:
        flow = one.flow
        owner = agent.desired.owner(flow.key) if flow is not None else None
        return {
            "table": int(one.table),
            "tableName": TableId(one.table).name,
            "kind": owner.kind.name if owner is not None else "",
            "owner": owner.name if owner is not None else "",
            "why": self._why(agent, one),
            "flow": str(flow) if flow is not None else "",
            "does": str(flow.instructions) if flow is not None else "drop",
        }


async def _journey(flows: Sequence[Flow], world: World, sent: Sequence[PacketFields]) -> Journey:
    """Return a packet's journey, computed beside the event loop: there may be many flows."""
    try:
        return await asyncio.to_thread(follow, flows, world, sent)
    except ValueError as exc:
        raise Invalid(f"the packet cannot be followed: {exc}") from exc


def _exit(leaving: Exit) -> dict[str, Any]:
    shown = {
        "kind": leaving.place.kind,
        "name": leaving.place.name,
        "port": leaving.port,
        "packet": packets.fields_of(leaving.packet),
    }
    if leaving.place.kind != "endpoint":
        return shown
    return {**shown, "answer": packets.fields_of(packets.answer(leaving.packet, leaving.port))}
