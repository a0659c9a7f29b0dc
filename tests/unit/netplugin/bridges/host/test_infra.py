"""Infra networks: an interface of the host on each, and routes by `contivh1`."""

from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network, IPv6Network, ip_address

import pytest

from core import keys
from core.errors import Conflict, Invalid, MasterUnavailable
from core.ids import EndpointKey, NetworkName
from netplugin.ovsdb import PortSpec
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import LocalPort
from ofnet.world import Bridge
from state.records import Encap, NetworkRecord, NetworkType
from state.underlay import AddressKind, UnderlayAddress
from state.watch import Removed
from tests.unit.netplugin.agent import Agent, Outside, eventually, running
from tests.unit.netplugin.fakes import Inside
from tests.unit.netplugin.records import HOST, endpoint, network

KEY = EndpointKey(f"contivh1.default-{HOST}")


def infra(name: str = "contivh1", *, tenant: str = "default", tag: int = 5) -> NetworkRecord:
    one = network(name, tenant, tag=tag)
    return replace(one, type=NetworkType.INFRA, subnet="10.9.0.0", gateway="")


def another(
    name: str, subnet: str, *, tenant: str = "default", encap: Encap = Encap.VXLAN
) -> NetworkRecord:
    return replace(network(name, tenant, tag=7, encap=encap), subnet=subnet)


def learn(agent: Agent, *networks: NetworkRecord) -> None:
    for one in networks:
        agent.learn(keys.network(one.id), one)


def granted(outside: Outside, agent: Agent, record: NetworkRecord, address: str) -> None:
    """Have netmaster know an endpoint of this host, and the store tell of it."""
    wanted = EndpointKey(f"{record.id}-{HOST}")
    outside.master.networks.add(record.id)
    mac = "02:02:" + ":".join(f"{int(part):02x}" for part in address.split("."))
    made = endpoint(nid=record.id, container=HOST)
    made = replace(made, ip_address=address, mac_address=mac)
    outside.master.endpoints[wanted] = made
    agent.learn(keys.endpoint(wanted), made)


async def test_the_host_has_an_interface_named_like_the_network(outside: Outside) -> None:
    async with running(outside) as agent:
        learn(agent, infra())
        granted(outside, agent, infra(), "10.9.0.1")
        await agent.infra.converge()
        row = outside.ovsdb.ports(Bridge.VXLAN)["contivh1"]
        assert (row.type, row.tag, row.external_ids) == ("internal", 5, {"endpoint-id": KEY})
        assert outside.links.own["contivh1"] == Inside(
            "02:02:0a:09:00:01", [IPv4Interface("10.9.0.1/16")], []
        )
        local = agent.world.take(Bridge.VXLAN)[0].local[KEY]
        assert (local.ofport, local.nat_ip) == (row.ofport, None)


async def test_netmaster_is_asked_for_an_endpoint_of_the_host(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.master.networks.add(infra().id)
        learn(agent, replace(infra(), subnet="10.1.0.0"))
        await agent.infra.converge()
        made = outside.master.endpoints[KEY]
        assert (made.endpoint_id, made.service_name, made.group_key) == (HOST, "", "")


async def test_by_contivh1_the_host_reaches_the_vxlan_networks_of_its_tenant(
    outside: Outside,
) -> None:
    async with running(outside) as agent:
        learn(
            agent,
            infra(),
            another("n2", "10.2.0.0"),
            another("wire", "10.3.0.0", encap=Encap.VLAN),
            another("theirs", "10.4.0.0", tenant="red"),
            replace(infra("other", tag=6), subnet="10.8.0.0"),
            replace(another("six", ""), subnet_len=0, ipv6_subnet="fd00:9::", ipv6_subnet_len=64),
        )
        granted(outside, agent, infra(), "10.9.0.1")
        granted(outside, agent, replace(infra("other"), subnet="10.8.0.0"), "10.8.0.1")
        await agent.infra.converge()

        def routes(name: str) -> set[IPv4Network | IPv6Network]:
            found = outside.links.routes[name]
            assert len({route.source for route in found}) == 1
            return {route.subnet for route in found}

        nets = {"10.1.0.0/16", "10.2.0.0/16", "10.9.0.0/16"}
        assert routes("contivh1") == set(map(IPv4Network, nets))
        assert outside.links.loose == {"contivh1", "other"}
        assert routes("other") == {IPv4Network("10.8.0.0/16")}
        ofports = [outside.ovsdb.ports()[name].ofport for name in ("contivh1", "other")]
        assert len(set(ofports)) == 2
        agent.records.apply(Removed("k", another("n2", "10.2.0.0")))
        await agent.infra.converge()
        assert IPv4Network("10.2.0.0/16") not in routes("contivh1")


async def test_by_contivh1_the_host_reaches_services(outside: Outside) -> None:
    services = IPv4Network("10.96.0.0/12")
    async with running(outside, services=services) as agent:
        learn(agent, infra(), infra("other", tag=6))
        granted(outside, agent, infra(), "10.9.0.1")
        granted(outside, agent, infra("other"), "10.9.0.2")
        await agent.infra.converge()
        routed = {
            name: {one.subnet for one in outside.links.routes[name]}
            for name in outside.links.routes
        }
        assert services in routed["contivh1"]
        assert services not in routed["other"]


async def test_an_interface_takes_no_number_of_a_bonds_card(outside: Outside) -> None:
    async with running(outside) as agent:
        cards = ("eth1", "eth2")
        outside.links.there.update(dict.fromkeys(cards))
        outside.ovsdb.given.update(eth1=7, eth2=port_names.FIRST_INFRA)
        await outside.ovsdb.add_port(Bridge.VLAN, PortSpec(name="uplinkPort", members=cards))
        learn(agent, infra())
        granted(outside, agent, infra(), "10.9.0.1")
        await agent.infra.converge()
        assert outside.ovsdb.ports()["contivh1"].ofport == port_names.FIRST_INFRA + 1


async def test_it_goes_with_its_network(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.sup.supervise("infra networks", agent.infra.run())
        outside.master.networks.add(infra().id)
        learn(agent, replace(infra(), subnet="10.1.0.0"))
        await eventually(lambda: "contivh1" in outside.links.routes)
        agent.records.apply(Removed("k", infra()))
        await eventually(lambda: "contivh1" not in outside.ovsdb.ports())
        assert not outside.master.endpoints
        assert agent.world.endpoints.port(KEY) is None


async def test_while_it_cannot_be_released_the_port_stays(outside: Outside) -> None:
    outside.faults.failing["release"] = MasterUnavailable("nobody leads")
    async with running(outside) as agent:
        outside.master.networks.add(infra().id)
        learn(agent, replace(infra(), subnet="10.1.0.0"))
        await agent.infra.converge()
        agent.records.apply(Removed("k", infra()))
        with pytest.raises(MasterUnavailable):
            await agent.infra.converge()
        assert "contivh1" in outside.ovsdb.ports()
        del outside.faults.failing["release"]
    async with running(outside) as agent:
        await agent.infra.converge()
        assert not outside.master.endpoints
        assert "contivh1" not in outside.ovsdb.ports()


async def test_a_restart_finds_it_again(outside: Outside) -> None:
    async with running(outside) as agent:
        learn(agent, infra())
        granted(outside, agent, infra(), "10.9.0.1")
        await agent.infra.converge()
        before = agent.world.endpoints.port(KEY)
    async with running(outside) as agent:
        learn(agent, infra())
        agent.infra.place()
        assert isinstance(before, LocalPort)
        assert agent.world.endpoints.port(KEY) == before


async def test_an_endpoint_of_a_network_of_old_is_given_back(outside: Outside) -> None:
    async with running(outside) as agent:
        learn(agent, infra())
        granted(outside, agent, infra(), "10.77.0.1")
        outside.faults.failing["create"] = MasterUnavailable("nobody leads")
        with pytest.raises(MasterUnavailable):
            await agent.infra.converge()
        assert not outside.master.endpoints


@pytest.mark.parametrize(
    ("name", "refusal"), [("a-very-long-name", Invalid), ("up0", Conflict), ("contivh0", Conflict)]
)
async def test_one_that_cannot_be_made_stops_no_other(
    outside: Outside, name: str, refusal: type[Exception]
) -> None:
    outside.links.there.update({"up0": None, "contivh0": None})
    wrong = replace(infra(tag=9), name=NetworkName(name))
    async with running(outside) as agent:
        learn(agent, wrong, infra())
        granted(outside, agent, wrong, "10.9.0.2")
        granted(outside, agent, infra(), "10.9.0.1")
        with pytest.raises(refusal):
            await agent.infra.converge()
        assert "contivh1" in outside.ovsdb.ports()
        assert name not in outside.ovsdb.ports()


async def test_an_infra_network_that_takes_what_the_host_needs_has_no_interface(
    outside: Outside,
) -> None:
    async with running(outside, services=IPv4Network("10.96.0.0/12")) as agent:
        learn(agent, infra(), another("web", "10.8.0.0"))
        granted(outside, agent, infra(), "10.9.0.1")
        await agent.infra.converge()
        assert "contivh1" in outside.links.own
        hop = UnderlayAddress(ip_address("10.9.3.3"), AddressKind.NEXT_HOP, "this host")
        agent.world.underlay.set_needed("next hops", [hop])
        for _ in range(2):
            await agent.infra.converge()
            assert "contivh1" not in outside.ovsdb.ports()
            assert "contivh1" not in outside.links.there
        assert KEY not in agent.world.take(Bridge.VXLAN)[0].local
        assert KEY in outside.master.endpoints, "it is the host's when the network is mended"
        hop = UnderlayAddress(ip_address("10.8.3.3"), AddressKind.NEXT_HOP, "this host")
        agent.world.underlay.set_needed("next hops", [hop])
        await agent.infra.converge()
        subnets = {str(one.subnet) for one in outside.links.routes["contivh1"]}
        assert "10.8.0.0/16" not in subnets
        assert {"10.9.0.0/16", "10.96.0.0/12"} <= subnets
