"""What a host needs for itself is known before the store is, and excepted from routes to pods."""

import asyncio
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from pathlib import Path

import pytest

from core import keys
from core.errors import HostError
from core.tasks import supervisor
from netplugin.bridges.host.host_ports import HostInterface
from netplugin.bridges.host.host_routes import PodRoutes
from netplugin.bridges.host.underlay_routes import UnderlayRoutes
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.world.bridges import port_names
from objdb.api import Change, Put
from objdb.connect import StoreAddress, StoreKind
from objdb.memory import MemoryBackend
from ofnet.world import Bridge
from state import codec
from state.records import ServiceInstance
from state.underlay import AddressKind, UnderlayAddress
from tests.unit.netplugin.agent import Outside, build_agent, eventually

OWN = {"192.168.2.10", "10.0.0.1"}
HOP = ip_address("192.168.2.254")
FIRST, POD = ip_address("10.1.0.1"), ip_address("10.1.0.7")
NAMES = {"etcd.example": {"192.0.2.7"}, "api.example": {"192.0.2.8", "::1"}}


async def resolve(host: str) -> set[str]:
    return NAMES.get(host, {host} if host[0].isdigit() else set())


@pytest.fixture
def routes(outside: Outside, tmp_path: Path) -> UnderlayRoutes:
    store = StoreAddress(StoreKind.ETCD, ("etcd.example:2379", "192.0.2.6:2379"), secure=False)
    first = (ip_network("10.9.0.0/16"),)
    settings = replace(outside.settings, store=store, pod_prefixes=first)
    outside.settings = replace(settings, ctrl_ip=IPv4Address("10.0.0.1"))
    outside.links.led[ip_address("192.0.2.1")] = "eth0", HOP
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 192.0.2.53\nnameserver 127.0.0.53\n")
    return UnderlayRoutes(
        outside.settings,
        outside.links,
        resolve=resolve,
        servers=["api.example"],
        resolv_conf=resolv_conf,
    )


def texts(outside: Outside) -> set[str]:
    return {str(one) for one in outside.links.spared}


KNOWN = {*OWN, "192.0.2.6", "192.0.2.7", "192.0.2.8", "192.0.2.53", str(HOP)}


async def test_all_that_needs_no_store_is_excepted_at_once(
    outside: Outside, routes: UnderlayRoutes
) -> None:
    outside.links.spared = {ip_address("192.0.2.99")}  # a master's, set by the agent before
    await routes.prepare()
    assert texts(outside) == {*KNOWN, "192.0.2.99"}
    assert outside.links.first == [ip_network("10.9.0.0/16")]
    kinds = {str(one.address): one.kind for one in routes.known._needed["next hops"]}
    assert kinds == {str(HOP): AddressKind.NEXT_HOP}


async def test_masters_come_from_the_store_before_any_route(
    outside: Outside, routes: UnderlayRoutes
) -> None:
    store = MemoryBackend()
    one = ServiceInstance(service=keys.SERVICE_NETMASTER, address="192.0.2.9", port=9999)
    key = keys.service(one.service, one.address, one.port)
    puts = (Put(key, codec.encode(one)), Put(f"{key}0", b"garbage"))
    await store.commit([Change((), puts)])
    await routes.prepare()
    await routes.start(store)
    assert texts(outside) == {*KNOWN, "192.0.2.9"}
    await store.close()


def host_port() -> HostInterface:
    """Return the host's port, by which one pod is reached and two subnets."""
    subnets = ("10.1.0.0/16", "192.0.2.52/31")
    return HostInterface(
        bridge=Bridge.VXLAN,
        name=port_names.HOST_PORT,
        owner="host",
        tag=0,
        ofport=1,
        mac="02:02:00:00:00:01",
        addresses=(),
        routes=[HostRoute(subnet=ip_network(one), source=None) for one in subnets],
        pods=PodRoutes(
            frozenset({POD}), IPv4Network("172.19.0.0/16"), IPv4Address("172.19.255.254")
        ),
    )


async def test_exceptions_end_when_all_hosts_and_masters_are_known(
    outside: Outside, routes: UnderlayRoutes
) -> None:
    outside.links.spared = {ip_address("192.0.2.99")}
    async with supervisor() as sup:
        agent = await build_agent(outside, sup)
        await agent.clients.host_ports.ensure(host_port)
        await routes.prepare()

        async def rounds() -> None:
            """Wait until all has been set twice more."""
            await outside.faults.until("routing", outside.faults.reached["routing"] + 4)

        def faults() -> list[str]:
            return agent.progress.faults("routes to pods")

        context = replace(agent.host_services.interfaces, interval=0.01)
        sup.supervise("underlay", routes.run(context))
        await rounds()
        assert "192.0.2.99" in texts(outside), "the store has not been read"
        agent.world.set_complete()
        await rounds()
        assert "192.0.2.99" in texts(outside), "masters are not known"
        routes.known.set_needed("masters", [UnderlayAddress(HOP, AddressKind.CONTROL, "m")])
        await eventually(lambda: "192.0.2.99" not in texts(outside))
        assert faults() == []
        outside.links.led[FIRST] = outside.links.led[POD] = "eth0", None
        await eventually(lambda: faults() != [])
        assert "leads 10.1.0.0/16, 10.1.0.7 to eth0, not to pods" in faults()[0]
        # an address of this host's own, as that of BGP, leads to itself
        del outside.links.led[POD]
        outside.links.held.add(str(FIRST))
        routes.known.set_needed("masters", [UnderlayAddress(HOP, AddressKind.CONTROL, "n")])
        await eventually(lambda: faults() == [])


async def test_what_others_remove_comes_back_and_a_failure_is_tried_again(
    outside: Outside, routes: UnderlayRoutes
) -> None:
    await routes.converge()
    outside.links.spared.clear()
    await routes.settle()
    assert texts(outside) == set(), "a pod that comes reads no routes"
    await routes.converge()
    assert texts(outside) == KNOWN
    outside.faults.failing["routing"] = HostError("busy")
    routes.known.set_others(
        "host h2", [UnderlayAddress(ip_address("192.0.2.2"), AddressKind.TUNNEL, "h2")]
    )
    with pytest.raises(HostError, match="busy"):
        await routes.settle()
    outside.faults.failing.clear()
    await asyncio.gather(routes.settle(), routes.settle())
    assert texts(outside) == {*KNOWN, "192.0.2.2"}
    assert outside.faults.reached["routing"] == 6, "after a failure all are set, once"
