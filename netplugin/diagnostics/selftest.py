"""GET /inspect/selftest: whether this host reaches the others, and can do its work.

In come the agent's own means: the checks of `/readyz`, the echo requests of
`netplugin.bridges.vxlan.path_mtu`, what `netplugin.bridges.vxlan.tunnel_probes` found, a comparison
of the switch's flows, the name server. Out goes, for each kind of check, how many passed, and what
failed and why. netmaster asks all hosts (`netmaster.api.v2.diagnostics.selftest`). Changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import islice
from typing import Any, Final, Protocol

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import ContivError, HostError
from core.ids import EndpointKey, HostLabel
from core.patience import patient
from daemons.health import Check
from netplugin.bridges.vxlan.path_mtu import (
    MAX_CONCURRENT,
    SHORT,
    PodSizes,
    Probe,
    TunnelEnds,
    tunnel_size,
)
from netplugin.dns import messages
from netplugin.dns.nameserver import NameServer
from netplugin.world.cluster_endpoints.endpoints import Endpoints
from netplugin.world.peers import Address
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.diff import Difference
from ofnet.flows import owner_of
from ofnet.packets.dns_answers import Question
from ofnet.world import Bridge

PATH: Final = "/inspect/selftest"
SECONDS: Final = patient(20.0)
"""Seconds for all checks of a host; netmaster waits a little longer."""
NAMES: Final = 50
"""Names that are asked for, of pods of this host."""

_SERVER: Final = IPv4Address("192.0.2.53")
_LABEL: Final = 63
"""Characters of a name that DNS can carry without dots."""
_ASKER: Final = EndpointKey("selftest")
_SERVICE_KINDS: Final = frozenset({ObjectKind.SERVICE, ObjectKind.AFFINITY})


@dataclass(slots=True)
class Outcomes:
    """How many checks of a kind passed, and what failed, with the reason."""

    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, fault: str) -> None:
        """Count a check; it passed if the fault is empty."""
        if fault:
            self.failed[name] = fault
        else:
            self.passed += 1


class ProbedTunnels(Protocol):
    """What probes inside the tunnels found (`netplugin.bridges.vxlan.tunnel_probes`)."""

    @property
    def faults(self) -> Mapping[HostLabel, str]:
        """The faults by host."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSelfTest:
    """What a host tests. `settle` is how many seconds flows may differ from what is wanted."""

    ready: Mapping[str, Check]
    agents: Mapping[Bridge, BridgeAgent]
    names: NameServer
    endpoints: Endpoints
    peers: TunnelEnds
    sizes: PodSizes
    probe: Probe
    tunnels: ProbedTunnels
    seconds: float = SECONDS
    settle: float = 1.0

    def routes(self) -> list[web.RouteDef]:
        """Return the route; one test runs at a time."""
        one_at_a_time = asyncio.Lock()

        async def answer(_request: web.Request) -> web.Response:
            async with one_at_a_time:
                found = await self.run()
            return web.Response(body=dumps(found), content_type="application/json")

        return [web.get(PATH, answer)]

    async def run(self) -> dict[str, Any]:
        """Return the outcomes of all checks by their kind."""
        kinds: dict[str, Callable[[Outcomes], Awaitable[None]]] = {
            "ready": self._ready,
            "flows": self._flows,
            "tunnels": self._tunnels,
            "services": self._services,
            "names": self._names,
        }
        found = {kind: Outcomes() for kind in kinds}
        await asyncio.gather(
            *(self._within(check(found[kind]), found[kind]) for kind, check in kinds.items())
        )
        return {
            kind: {"passed": one.passed, "failed": dict(sorted(one.failed.items()))}
            for kind, one in found.items()
        }

    async def _within(self, check: Awaitable[None], outcomes: Outcomes) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                await check
        except TimeoutError:
            outcomes.note("time", f"not finished within {self.seconds:g} s")
        except ContivError as exc:
            outcomes.note("check", str(exc))

    async def _ready(self, outcomes: Outcomes) -> None:
        async def one(name: str, check: Check) -> None:
            try:
                await check()
            except ContivError as exc:
                outcomes.note(name, str(exc))
            else:
                outcomes.note(name, "")

        await asyncio.gather(*(one(name, check) for name, check in self.ready.items()))

    async def _flows(self, outcomes: Outcomes) -> None:
        for bridge, agent in self.agents.items():
            difference = await self._lasting(agent)
            add, delete = len(difference.add), len(difference.delete)
            differs = f"{add} flows are missing, {delete} are not wanted" if difference else ""
            outcomes.note(bridge, differs)

    async def _lasting(self, agent: BridgeAgent) -> Difference:
        """Return how the switch differs from what is wanted, and does not settle."""
        # A change on its way, such as a pod that comes, is no fault.
        _, first = await agent.compared()
        if not first:
            return first
        await asyncio.sleep(self.settle)
        _, then = await agent.compared()
        missing, unwanted = set(first.add), set(first.delete)
        return Difference(
            add=tuple(flow for flow in then.add if flow in missing),
            delete=tuple(one for one in then.delete if one in unwanted),
        )

    async def _tunnels(self, outcomes: Outcomes) -> None:
        mtu, places = self.sizes.of(Bridge.VXLAN), asyncio.Semaphore(MAX_CONCURRENT)
        # Two labels of one host, while its old record is there, share a tunnel.
        known = {vtep.ip for vtep in self.agents[Bridge.VXLAN].world.vteps.values()}

        async def one(host: HostLabel, address: Address) -> None:
            if fault := self.tunnels.faults.get(host):
                outcomes.note(host, fault)
                return
            if address not in known:
                outcomes.note(host, f"no tunnel port to {address}")
                return
            async with places:
                outcomes.note(host, await self._path_fault(address, tunnel_size(address, mtu)))

        await asyncio.gather(*(one(*peer) for peer in self.peers.tunnel_ends().items()))

    async def _path_fault(self, address: Address, size: int) -> str:
        try:
            if await self.probe(address, size):
                return ""
            if await self.probe(address, SHORT):
                return f"packets of {size} bytes do not pass to {address}, short ones do"
        except HostError as exc:
            return str(exc)
        return f"{address} answers no echo request"

    async def _services(self, outcomes: Outcomes) -> None:
        """Check that the switch has what leads to providers. A service may have none."""
        for bridge, agent in self.agents.items():
            difference = await self._lasting(agent)
            lacking = sum(flow.owner in _SERVICE_KINDS for flow in difference.add)
            stale = sum(owner_of(one.cookie) in _SERVICE_KINDS for one in difference.delete)
            if lacking or stale:
                outcomes.note(bridge, f"{lacking} flows are missing, {stale} are not wanted")
            else:
                outcomes.passed += len(agent.world.services)

    async def _names(self, outcomes: Outcomes) -> None:
        """Ask the name server, as pods do, for names of pods and services of their tenants."""
        for question, name, address in islice(self._questions(), NAMES):
            answer = self.names.resolve(question)
            found = isinstance(answer, bytes) and address.packed in answer
            outcomes.note(name, "" if found else f"the name service does not answer {address}")

    def _questions(self) -> Iterator[tuple[Question, str, IPv4Address]]:
        worlds = (agent.world for agent in self.agents.values())
        tenant_of = self.endpoints.tenant_of
        networks = {tenant_of(one): one for world in worlds for one in world.networks}
        for tenant, kinds in self.names.report()["dnsRecords"].items():
            for name, shown in (
                *kinds.get("commonNames", {}).items(),
                *kinds.get("services", {}).items(),
            ):
                address = shown[0].partition(" ")[0].removeprefix("ipv4:")
                if (
                    tenant in networks
                    and len(shown) == 1
                    and address != "<nil>"
                    and len(name) <= _LABEL
                ):
                    asked = Question(
                        pod=_ASKER,
                        network=networks[tenant],
                        server=_SERVER,
                        message=messages.question_for(name, "A"),
                    )
                    yield asked, name, IPv4Address(address)
