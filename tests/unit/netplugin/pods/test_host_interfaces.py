"""The second interface of pods on networks without a gateway."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from core.errors import HostError, SwitchUnavailable
from core.ids import EndpointKey
from netplugin.ovsdb import PortSpec
from ofnet.world import AccessPort, Bridge, HostPort
from tests.unit.netplugin.agent import (
    Agent,
    Outside,
    eventually,
    in_group,
    left_nothing,
    request,
    running,
)
from tests.unit.netplugin.fakes import Inside
from tests.unit.netplugin.records import group, key, network

pytestmark = pytest.mark.usefixtures("hurried")
BARE = network(gateway="")
HOST = HostPort(ofport=0x7F00, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
NETNS = "/run/netns/c1"


def shown(agent: Agent) -> dict[EndpointKey, AccessPort]:
    return dict(agent.world.take(Bridge.VXLAN)[0].access)


async def test_a_pod_without_a_gateway_goes_by_its_host(outside: Outside) -> None:
    async with running(outside, (BARE,)) as agent:
        agent.world.endpoints.set_host_port(HOST)
        await agent.pods.add(request())
        assert outside.links.inside[NETNS, "host1"] == Inside(
            "02:02:ac:13:00:01", [IPv4Interface("172.19.0.1/16")], [IPv4Address("172.19.255.254")]
        )
        assert outside.links.inside[NETNS, "eth0"].gateways == []
        row = outside.ovsdb.ports(Bridge.VXLAN)["hport1"]
        assert row.external_ids == {"endpoint-id": f"host1-{key('c1')}"}
        assert shown(agent)[key("c1")] == AccessPort(
            ofport=row.ofport or 0, mac="02:02:ac:13:00:01", ip=IPv4Address("172.19.0.1")
        )
        await agent.pods.delete(request())
        assert shown(agent) == {}
        agent.world.endpoints.set_host_port(None)
        await agent.reconciler.flush()
        await left_nothing(agent)


async def test_a_pod_with_a_gateway_has_no_second_interface(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.world.endpoints.set_host_port(HOST)
        await agent.pods.add(request())
        assert outside.ovsdb.ports().keys() == {"vvport1"}
        assert shown(agent) == {}


async def test_without_the_hosts_port_the_runtime_is_to_try_again(outside: Outside) -> None:
    async with running(outside, (BARE,)) as agent:
        with pytest.raises(SwitchUnavailable, match="contivh0"):
            await agent.pods.add(request())
        await left_nothing(agent)


async def test_an_add_that_fails_there_leaves_nothing(outside: Outside) -> None:
    async with running(outside, (BARE,)) as agent:
        agent.world.endpoints.set_host_port(HOST)
        await agent.reconciler.flush()
        agent.base = {flow for s in outside.switches.values() for flow in s.table}
        gate = outside.ovsdb.add_port

        async def refuse(bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> None:
            if spec.name == "hport1":
                raise HostError("refused")
            await gate(bridge, spec, replaces)

        outside.ovsdb.add_port = refuse  # type: ignore[method-assign]
        with pytest.raises(HostError, match="refused"):
            await agent.pods.add(request())
        await left_nothing(agent)


async def test_a_restart_finds_it_and_a_lost_port_comes_back(outside: Outside) -> None:
    async with running(outside, (BARE,)) as agent:
        agent.world.endpoints.set_host_port(HOST)
        await agent.pods.add(request())
        before = shown(agent)
    async with running(outside, (BARE,)) as agent:
        agent.world.endpoints.set_host_port(HOST)
        agent.host_interfaces.publish()
        assert shown(agent) == before
        agent.sup.supervise("interfaces", agent.host_interfaces.run())
        outside.ovsdb.lose("hport1")
        await eventually(lambda: "hport1" in outside.ovsdb.ports())
        await eventually(lambda: key("c1") in shown(agent))


async def test_its_group_limits_and_marks_what_it_sends(outside: Outside) -> None:
    async with running(outside, (BARE,)) as agent:
        agent.world.endpoints.set_host_port(HOST)
        agent.learn("g", group(bandwidth="10 mbps", burst=2000, dscp=10))
        await agent.pods.add(in_group(request(), "web"))

        def limits() -> tuple[int, int]:
            row = outside.ovsdb.ports()["hport1"]
            return row.policing_rate, row.policing_burst

        assert limits() == (10485, 2000)
        assert shown(agent)[key("c1")].dscp == 10
        agent.sup.supervise("interfaces", agent.host_interfaces.run())
        for dscp in (11, 12, 0):
            agent.learn("g", group(bandwidth="10 mbps", burst=2000, dscp=dscp))
            await eventually(lambda: shown(agent)[key("c1")].dscp == dscp)  # noqa: B023 - now
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        agent.learn("g", group(bandwidth="20 mbps", burst=3000))
        await eventually(lambda: limits() == (20971, 3000))
        outside.ovsdb.police("hport1", 0, 0)
        await eventually(lambda: limits() == (20971, 3000))


async def test_services_are_reached_by_the_pods_own_interface(outside: Outside) -> None:
    services = IPv4Network("10.96.0.0/12")
    plain = network("plain", gateway="10.1.0.1")
    outside.master.networks.add(plain.id)
    async with running(outside, (BARE, plain), services=services) as agent:
        agent.world.endpoints.set_host_port(HOST)
        await agent.pods.add(request())
        assert outside.links.inside[NETNS, "eth0"].routes == (services,)
        assert outside.links.inside[NETNS, "host1"].routes == ()
        await agent.pods.add(request("c2", network="plain"))
        assert outside.links.inside["/run/netns/c2", "eth0"].routes == ()


async def test_one_that_was_reclaimed_is_not_shown_again(outside: Outside) -> None:
    async with running(outside, (BARE,)) as agent:
        agent.world.endpoints.set_host_port(HOST)
        await agent.pods.add(request())
        agent.pods.remove_flows(key("c1"))
        await agent.host_interfaces.converge()
        assert shown(agent) == {}


async def test_what_nobody_has_is_swept(outside: Outside) -> None:
    async with running(outside) as agent:
        await outside.ovsdb.add_port(Bridge.VXLAN, PortSpec(name="hport9", ofport_request=9))
        outside.links.there["hport9"] = None
        await agent.pod_ports.converge()
        await eventually(lambda: not outside.ovsdb.ports() and not outside.links.there)
