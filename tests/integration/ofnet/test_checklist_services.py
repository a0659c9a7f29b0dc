"""The original's test of services (TestSvcProxyInterface), as whole lines of a real switch.

First packets are real: the switch brings them up, and what goes on leaves by a port. (The original
injects packets of no MAC address, which never go on.)
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

import pytest

from core.ids import EndpointKey
from ofnet.agent import BridgeAgent
from ofnet.changes import Changes, ObjectKind
from ofnet.openflow.actions import PORT_TABLE, Output
from ofnet.world import (
    Bridge,
    FwdMode,
    LocalEndpoint,
    RemoteEndpoint,
    Service,
    ServicePort,
    World,
)
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent, until
from tests.integration.ofnet.three_hosts import NET, differing, empty, host_name, line
from tests.unit.ofnet import frames

pytestmark = pytest.mark.ovs

VIP = IPv4Address("10.254.0.10")
PORTS = (ServicePort(6, 5600, 9600), ServicePort(17, 5601, 9600), ServicePort(6, 5602, 9602))
IN_VRF = "metadata=0x100000000/0xff00000000"
KINDS = {6: "tcp", 17: "udp"}


def client(number: int) -> LocalEndpoint:
    """Return the pod behind port 20 + number."""
    return LocalEndpoint(
        key=EndpointKey(f"client{number}"),
        network=NET.id,
        ofport=20 + number,
        mac=f"02:02:0a:02:02:{number:02x}",
        ip=IPv4Address(f"10.2.2.{number}"),
        group_id=100,
    )


ONE, TWO, THREE = client(2), client(3), client(4)


def far(number: int) -> RemoteEndpoint:
    """Return a pod of another host on the clients' network."""
    return RemoteEndpoint(
        key=EndpointKey(f"far{number}"),
        network=NET.id,
        host=host_name(2),
        mac=f"00:01:02:03:04:{number}",
        ip=IPv4Address(f"10.2.2.{number}"),
    )


def addresses(*texts: str) -> frozenset[IPv4Address]:
    return frozenset(map(IPv4Address, texts))


@dataclass(frozen=True)
class Site:
    """A bridge with clients, and its agent."""

    bridge: Dialled
    agent: BridgeAgent

    async def becomes(self, world: World) -> None:
        before = self.agent.world
        keys = frozenset({*before.services, *world.services})
        await self.agent.update(
            world, differing(before, world) | Changes.of(ObjectKind.SERVICE, keys)
        )

    async def has_providers(self, *providers: str, ports: tuple[ServicePort, ...] = PORTS) -> None:
        service = Service(
            key="svc:tenant1",
            vrf=1,
            address=VIP,
            ports=ports,
            providers=addresses(*providers),
        )
        await self.becomes(replace(self.agent.world, services={service.key: service}))

    async def asks(self, pod: LocalEndpoint) -> None:
        """Have a client's first packet come in; return when it has gone on."""
        before = self.bridge.switch.counters["packet_out"]
        frame = frames.segment(pod, str(VIP), PORTS[0].port)
        self.bridge.switch.send_packet(frame, (Output(PORT_TABLE),), in_port=pod.ofport)
        await until(lambda: self.bridge.switch.counters["packet_out"] == before + 2, "it goes on")

    def flows(self) -> set[str]:
        """Return the flows of services, but for what is sent to providers themselves."""
        found = (one for one in self.bridge.flows() if one.startswith(("table=3,", "table=6,")))
        return {one for one in found if "priority=1 " not in one and not is_direct(one)}


def is_direct(flow: str) -> bool:
    return "priority=10," in flow and "nw_src=" in flow


def watch(ports: Iterable[ServicePort] = PORTS) -> set[str]:
    """Return the flows that bring up what is for the service, and drop what is for no port."""
    found = set()
    for port in ports:
        to = f"{KINDS[port.protocol]},{IN_VRF},nw_dst={VIP}"
        found.add(line(3, 10, f"{to},tp_dst={port.port}", "CONTROLLER:65535"))
        found.add(line(3, 9, to, "drop"))
    return found


def nat(
    pod: LocalEndpoint,
    provider: IPv4Address,
    ports: Iterable[ServicePort] = PORTS,
    mac: str = "",
) -> set[str]:
    """Return the pairs of a client."""
    found = set()
    rewrite = (f"set_field:{mac}->eth_dst",) if mac else ()
    for port in ports:
        kind = KINDS[port.protocol]
        sent = f"{kind},{IN_VRF},nw_src={pod.ip},nw_dst={VIP},tp_dst={port.port}"
        answered = f"{kind},{IN_VRF},nw_src={provider},nw_dst={pod.ip},tp_src={port.provider_port}"
        found |= {
            line(
                *(3, 100, sent, *rewrite, f"set_field:{port.provider_port}->{kind}_dst"),
                *(f"set_field:{provider}->ip_dst", "goto_table:4"),
            ),
            line(
                *(6, 100, answered, f"set_field:{port.port}->{kind}_src"),
                *(f"set_field:{VIP}->ip_src", "goto_table:7"),
            ),
        }
    return found


@pytest.fixture
async def site(ovs_module: OvsHost) -> AsyncIterator[Site]:
    async with dialled(ovs_module) as bridge:
        for pod in (ONE, TWO, THREE):
            name = f"{bridge.name}-{pod.ofport}"
            ovs_module.vsctl(
                *("add-port", bridge.name, name, "--", "set", "interface", name),
                *("type=internal", f"ofport_request={pod.ofport}"),
            )
        world = empty(1, FwdMode.ROUTING)
        world = replace(world, local={pod.key: pod for pod in (ONE, TWO)})
        async with running_agent(bridge, world, bridge_name=Bridge.VXLAN) as agent:
            yield Site(bridge, agent)


async def test_packets_to_a_service_go_to_the_controller(site: Site) -> None:
    await site.has_providers()
    assert site.flows() == set()
    await site.has_providers("20.1.1.22")
    assert site.flows() == watch()


async def test_a_first_packet_makes_nat_there_and_back(site: Site) -> None:
    await site.has_providers("20.1.1.22")
    provider = IPv4Address("20.1.1.22")
    await site.asks(ONE)
    assert site.flows() == watch() | nat(ONE, provider)
    await site.asks(TWO)
    assert site.flows() == watch() | nat(ONE, provider) | nat(TWO, provider)


async def test_other_providers(site: Site) -> None:
    await site.has_providers("20.1.1.22")
    await site.asks(ONE)
    await site.has_providers("20.1.1.23", "20.1.1.24")
    assert site.flows() == watch()


async def test_clients_are_spread_and_leave_room(site: Site) -> None:
    first, second = IPv4Address("20.1.1.23"), IPv4Address("20.1.1.24")
    await site.has_providers("20.1.1.23", "20.1.1.24")
    await site.asks(ONE)
    await site.asks(TWO)
    assert site.flows() == watch() | nat(ONE, first) | nat(TWO, second)
    await site.becomes(replace(site.agent.world, local={TWO.key: TWO}))
    assert site.flows() == watch() | nat(TWO, second)
    both = {TWO.key: TWO, THREE.key: THREE}
    await site.becomes(replace(site.agent.world, local=both))
    await site.asks(THREE)
    assert site.flows() == watch() | nat(TWO, second) | nat(THREE, first)


async def test_another_port(site: Site) -> None:
    """The client stays where it is, with the other port."""
    await site.has_providers("20.1.1.22")
    await site.asks(ONE)
    other = (*PORTS[:2], ServicePort(6, 5602, 7777))
    await site.has_providers("20.1.1.22", ports=other)
    assert site.flows() == watch(other) | nat(ONE, IPv4Address("20.1.1.22"), other)
    assert not any("9602" in flow for flow in site.flows())


async def test_providers_elsewhere_on_the_clients_network(site: Site) -> None:
    there = {pod.key: pod for pod in (far(23), far(24))}
    await site.becomes(replace(site.agent.world, remote=there))
    await site.has_providers("10.2.2.23", "10.2.2.24")
    await site.asks(ONE)
    assert site.flows() == watch() | nat(ONE, far(23).ip, mac="00:01:02:03:04:23")


async def test_providers_on_another_network(site: Site) -> None:
    other = replace(NET, id=type(NET.id)("other.tenant1"), vlan=2, vni=2)
    moved = replace(far(23), network=other.id)
    world = replace(
        site.agent.world,
        networks={**site.agent.world.networks, other.id: other},
        remote={moved.key: moved},
    )
    await site.becomes(world)
    await site.has_providers("10.2.2.23")
    await site.asks(ONE)
    assert site.flows() == watch() | nat(ONE, moved.ip)


async def test_a_deleted_service_leaves_nothing(site: Site) -> None:
    await site.has_providers("20.1.1.22")
    await site.asks(ONE)
    await site.becomes(replace(site.agent.world, services={}))
    assert site.flows() == set()
    assert not any(is_direct(flow) for flow in site.bridge.flows())


async def test_counters_are_the_switchs(site: Site) -> None:
    await site.has_providers("20.1.1.22")
    await site.asks(ONE)
    frame = frames.segment(ONE, str(VIP), PORTS[0].port)
    for _ in range(3):
        site.bridge.switch.send_packet(frame, (Output(PORT_TABLE),), in_port=ONE.ofport)
    clients = await site.agent.service_stats()
    of_service = clients[str(ONE.ip)]["SvcStats"][str(VIP)]
    provider = of_service["ProvStats"]["20.1.1.22"]
    assert (provider["PacketsOut"], provider["BytesOut"]) == (3, 3 * len(frame))
    assert (provider["PacketsIn"], provider["BytesIn"]) == (0, 0)


async def test_a_restarted_agent_goes_on(site: Site) -> None:
    """What a real switch reports is read back."""
    await site.has_providers("20.1.1.22", "20.1.1.23")
    await site.asks(TWO)
    await site.asks(ONE)
    before = site.flows()
    async with running_agent(
        site.bridge, replace(site.agent.world, served={}), bridge_name=Bridge.VXLAN
    ) as agent:
        assert site.flows() == before
        assert {one.provider for one in agent.world.served.values()} == addresses(
            "20.1.1.22", "20.1.1.23"
        )
