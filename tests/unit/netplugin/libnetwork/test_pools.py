"""Subnets and addresses: what they are of, what is refused, and what is released."""

import json
from dataclasses import replace

import pytest

from core.errors import ContivError, Invalid, NotFound
from netplugin.libnetwork.calls import BadBody
from netplugin.libnetwork.pools import IpamDriver, PoolId, parse_id
from netplugin.world.builder import WorldBuilder
from ofnet.world import FwdMode
from state.records import GroupRecord
from tests.unit.netplugin.fakes import FakeMaster, Faults
from tests.unit.netplugin.records import HOST, group, network

GATEWAY = {"RequestAddressType": "com.docker.network.gateway"}


@pytest.fixture
def world() -> WorldBuilder:
    world = WorldBuilder(HOST, FwdMode.ROUTING)
    world.put(network(v6=True))
    tagged: GroupRecord = replace(group("g1"), group_tag="gold")
    world.put(tagged)
    return world


@pytest.fixture
def master() -> FakeMaster:
    return FakeMaster(Faults())


@pytest.fixture
def ipam(world: WorldBuilder, master: FakeMaster) -> IpamDriver:
    return IpamDriver(master, world, in_swarm=False)


async def pool(ipam: IpamDriver, **members: object) -> object:
    return (await ipam.request_pool(json.dumps(members).encode()))["PoolID"]


async def address(ipam: IpamDriver, **members: object) -> object:
    return (await ipam.request_address(json.dumps(members).encode()))["Address"]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"Options": {"network": "n1", "tenant": "default"}}, "n1.default|10.1.0.0/16"),
        ({"Options": {"network": "n1"}, "V6": True}, "n1.default|2001:db8::/64"),
        ({"Options": {"network": "n1", "group": "g1"}}, "n1:g1.default|10.1.0.0/16"),
        ({"Options": {"contiv-tag": "gold"}}, "n1:g1.default|10.1.0.0/16"),
        ({"Options": {"contiv-tag": "n1.default"}}, "n1.default|10.1.0.0/16"),
        ({"Pool": "10.1.0.0/16", "Options": None}, "n1.default|10.1.0.0/16"),
        (
            {"Pool": "10.1.0.0/16", "SubPool": "10.1.7.0/24"},
            "n1.default|10.1.0.0/16|10.1.7.0/24",
        ),
        # netmaster creates docker's network before its record is there
        (
            {"Pool": "10.7.0.0/24", "Options": {"network": "new", "tenant": "red"}},
            "new.red|10.7.0.0/24",
        ),
    ],
)
async def test_what_a_pool_is_of(ipam: IpamDriver, members: dict[str, object], text: str) -> None:
    assert await pool(ipam, **members) == text
    assert str(parse_id(text)) == text


@pytest.mark.parametrize(
    ("members", "error", "text"),
    [
        ({"Pool": "10.7.0.0/24"}, NotFound, "create it with netctl"),
        ({"Pool": "10.7.0.0/24", "Options": {"network": "n1"}}, Invalid, "has subnet 10.1.0.0/16"),
        ({"Options": {"contiv-tag": "lead"}}, NotFound, "failed to lookup tag lead"),
        ({}, Invalid, "no subnet: name one .*; a network of IPv6 alone needs docker 28"),
        ({"V6": True, "Options": {"network": "n9"}}, Invalid, "no IPv6 subnet"),
        ({"Pool": "10.1.0.0"}, BadBody, "is not a subnet"),
        ({"Pool": "10.1.0.0/16", "SubPool": "10.2.0.0/24"}, Invalid, "is not in subnet"),
        ({"Pool": "10.1.0.0/16", "SubPool": "fd00::/64"}, Invalid, "is not in subnet"),
        ({"Pool": "10.1.0.0/16", "SubPool": "x"}, BadBody, "is not a subnet"),
    ],
)
async def test_pools_that_are_none(
    ipam: IpamDriver, members: dict[str, object], error: type[ContivError], text: str
) -> None:
    with pytest.raises(error, match=text):
        await pool(ipam, **members)


async def test_a_subnet_of_two_networks_is_nobodys(ipam: IpamDriver, world: WorldBuilder) -> None:
    world.put(network(tenant="red", tag=2))
    with pytest.raises(Invalid, match=r"n1.default, n1.red have subnet 10.1.0.0/16: choose"):
        await pool(ipam, Pool="10.1.0.0/16")


async def test_a_subnet_is_looked_for_beside_networks_of_ipv6_alone(
    ipam: IpamDriver, world: WorldBuilder
) -> None:
    six = replace(network("six", tag=2), subnet="", subnet_len=0, first="", last="", gateway="")
    world.put(replace(six, ipv6_subnet="fd00:9::", ipv6_subnet_len=64))
    assert await pool(ipam, Pool="10.1.0.0/16") == "n1.default|10.1.0.0/16"
    assert await pool(ipam, Pool="fd00:9::/64", V6=True) == "six.default|fd00:9::/64"
    with pytest.raises(NotFound, match=r"no network has subnet 10.7.0.0/24"):
        await pool(ipam, Pool="10.7.0.0/24")


@pytest.mark.parametrize("text", ["", "n1.default", "a|b|c|d", "n1.default|x", "10.1.0.0", "|"])
async def test_ids_that_are_none(ipam: IpamDriver, text: str) -> None:
    with pytest.raises(BadBody):
        await address(ipam, PoolID=text)


async def test_a_gateway_is_the_networks_own(ipam: IpamDriver, world: WorldBuilder) -> None:
    own = "n1.default|10.1.0.0/16"
    assert await address(ipam, PoolID=own, Options=GATEWAY) == "10.1.255.254/16"
    given = await address(ipam, PoolID=own, Address="10.1.255.254", Options=GATEWAY)
    assert given == "10.1.255.254/16"
    with pytest.raises(Invalid, match=r"has gateway 10.1.255.254, not 10.1.0.1"):
        await address(ipam, PoolID=own, Address="10.1.0.1", Options=GATEWAY)
    world.put(network("n2", gateway="", tag=2))
    assert await address(ipam, PoolID="n2.default|10.1.0.0/16", Options=GATEWAY) == "10.1.0.0/16"
    with pytest.raises(Invalid, match="has no gateway"):
        await address(ipam, PoolID="n2.default|10.1.0.0/16", Address="10.1.0.1", Options=GATEWAY)
    new = "new.default|10.7.0.0/24"
    assert await address(ipam, PoolID=new, Address="10.7.0.1", Options=GATEWAY) == "10.7.0.1/24"


async def test_addresses_are_reserved_by_netmaster(ipam: IpamDriver, master: FakeMaster) -> None:
    given = await address(ipam, PoolID="n1:g1.default|10.1.0.0/16|10.1.7.0/24", Address="")
    assert given == "10.1.0.1/16"
    (asked,) = master.asked
    assert (asked.network_id, asked.address_pool) == ("n1:g1.default", "10.1.0.0/16")
    assert (asked.preferred, asked.range) == ("", "10.1.7.0/24")
    await address(ipam, PoolID="n1.default|2001:db8::/64", Address="2001:0DB8:0::7")
    assert master.asked[1].preferred == "2001:db8::7"


async def test_only_what_is_reserved_here_is_released(ipam: IpamDriver, master: FakeMaster) -> None:
    """What became an endpoint's may be another host's reservation by the time docker releases."""
    own = "n1.default|10.1.0.0/16"
    await address(ipam, PoolID=own, Address="10.1.0.5")
    await address(ipam, PoolID=own, Address="10.1.0.6")
    ipam.taken_over(network().id, "10.1.0.5")
    master.reserved.add(("n1.default", "10.1.0.7"))
    for last in "567":
        body = {"PoolID": own, "Address": f"10.1.0.{last}"}
        await ipam.release_address(json.dumps(body).encode())
    assert master.reserved == {("n1.default", "10.1.0.5"), ("n1.default", "10.1.0.7")}
    assert await ipam.release_address(b'{"PoolID":"","Address":"10.1.0.5"}') == {}


@pytest.mark.parametrize("adopted", [False, True], ids=["same agent", "agent before"])
async def test_the_release_of_an_ended_container_leaves_the_next_ones_reservation(
    world: WorldBuilder, master: FakeMaster, *, adopted: bool
) -> None:
    """A release does not say for whom: with five containers at a time it comes in between."""
    ipam = IpamDriver(master, world, in_swarm=False)
    own = "n1.default|10.1.0.0/16"
    release = json.dumps({"PoolID": own, "Address": "10.1.0.5"}).encode()
    if not adopted:
        await address(ipam, PoolID=own, Address="10.1.0.5")
        ipam.taken_over(network().id, "10.1.0.5")
    ipam.given_back(network().id, "10.1.0.5")
    master.reserved.clear()  # the endpoint, which had it, is gone
    await address(ipam, PoolID=own, Address="10.1.0.5")
    await ipam.release_address(release)
    assert master.reserved == {("n1.default", "10.1.0.5")}
    await ipam.release_address(release)  # the next one was not created
    assert master.reserved == set()


async def test_in_a_swarm_any_manager_releases(world: WorldBuilder, master: FakeMaster) -> None:
    ipam = IpamDriver(master, world, in_swarm=True)
    master.reserved.add(("n1.default", "10.1.0.7"))
    await ipam.release_address(b'{"PoolID":"n1.default|10.1.0.0/16","Address":"10.1.0.7"}')
    assert master.reserved == set()
    # a pool of a network that AllocateNetwork will create
    assert await pool(ipam, Pool="10.7.0.0/24") == "10.7.0.0/24"
    master.reserved.add(("", "10.7.0.7"))
    await ipam.release_address(b'{"PoolID":"10.7.0.0/24","Address":"10.7.0.7"}')
    assert master.reserved == set()


async def test_a_node_of_a_swarm_asks_netmaster_nothing(
    world: WorldBuilder, master: FakeMaster
) -> None:
    ipam = IpamDriver(master, world, in_swarm=True)
    of_node = await pool(ipam, Pool="10.7.0.0/24", AddressSpace="contivLocal")
    assert of_node == "node|10.7.0.0/24"
    assert await address(ipam, PoolID=of_node, Address="10.7.0.9") == "10.7.0.9/24"
    given = await address(ipam, PoolID=of_node, Address="10.7.0.254", Options=GATEWAY)
    assert given == "10.7.0.254/24"
    with pytest.raises(BadBody, match="a manager of the swarm chooses"):
        await address(ipam, PoolID=of_node)
    with pytest.raises(BadBody, match="is not a subnet"):
        await pool(ipam, AddressSpace="contivLocal")
    master.reserved.add(("", "10.7.0.9"))
    await ipam.release_address(b'{"PoolID":"node|10.7.0.0/24","Address":"10.7.0.9"}')
    assert (master.reserved, master.asked) == ({("", "10.7.0.9")}, [])


async def test_what_stands_for_no_gateway_may_be_asked_for_again(
    world: WorldBuilder, master: FakeMaster
) -> None:
    world.put(network("n2", gateway="", tag=2))
    ipam = IpamDriver(master, world, in_swarm=True)
    for own in ("n2.default|10.1.0.0/16", "10.1.0.0/16"):
        assert await address(ipam, PoolID=own, Options=GATEWAY) == "10.1.0.0/16"
        again = await address(ipam, PoolID=own, Address="10.1.0.0", Options=GATEWAY)
        assert again == "10.1.0.0/16"


def test_the_network_of_a_pool() -> None:
    assert parse_id("n1:g1.red|10.1.0.0/24").network == "n1.red"
    assert parse_id("n1.red|10.1.0.0/24").network == "n1.red"
    assert PoolId(alloc_id="", subnet="10.1.0.0/24").network is None
