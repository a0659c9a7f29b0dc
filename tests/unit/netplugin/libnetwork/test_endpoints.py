"""Endpoints of containers: from CreateEndpoint to DeleteEndpoint, by the path of CNI's pods."""

from pathlib import Path

import pytest

from core.errors import Conflict, ContivError, Exhausted, HostError, NotFound
from netplugin.cni.interface_spec import Delivery
from netplugin.pods.registry.journal_entry import EntryState
from tests.unit.netplugin.agent import NOTHING_LEFT, Outside, eventually, left_nothing, running
from tests.unit.netplugin.libnetwork.scene import Drivers, drivers
from tests.unit.netplugin.records import network

pytestmark = pytest.mark.usefixtures("hurried")
OPTIONS = {"com.docker.network.generic": {"network": "n1", "tenant": "default"}}
ENDPOINT = {"NetworkID": "d1", "EndpointID": "e1"}
CREATE, DELETE = "NetworkDriver.CreateEndpoint", "NetworkDriver.DeleteEndpoint"
JOIN = "NetworkDriver.Join"


async def made(it: Drivers) -> None:
    await it.call("NetworkDriver.CreateNetwork", NetworkID="d1", Options=OPTIONS)


async def test_a_container_comes_and_goes(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        given = await it.call(CREATE, **ENDPOINT, Interface={"Address": "10.1.0.9/16"})
        assert given["Interface"] == {
            "Address": "",
            "AddressIPv6": "",
            "MacAddress": "02:02:0a:01:00:09",
        }
        (link,) = outside.links.there.values()
        assert link is not None
        assert (link.netns_path, link.ifname) == ("", "vport1")
        assert not outside.links.inside, "the engine addresses it"
        joined = await it.call(JOIN, **ENDPOINT, SandboxKey="/run/docker/netns/x")
        assert joined["InterfaceName"] == {"SrcName": "vport1", "DstName": "", "DstPrefix": "eth"}
        assert (joined["Gateway"], joined["GatewayIPv6"]) == ("10.1.255.254", "")
        (entry,) = outside.journal.entries.values()
        assert (entry.state, entry.netns) == (EntryState.PRESENT, "/run/docker/netns/x")
        assert entry.spec.delivery == Delivery.HANDED_OVER
        assert not entry.spec.attachment_id, "a GC of CNI leaves it alone"
        await it.call("NetworkDriver.Leave", **ENDPOINT)
        await it.call(DELETE, **ENDPOINT)
        await left_nothing(it.agent)
        await it.call(DELETE, **ENDPOINT)


async def test_what_the_engine_left_open_is_answered(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        given = await it.call(CREATE, **ENDPOINT, Interface=None)
        assert given["Interface"]["Address"] == "10.1.0.1/16"
        chosen = {"MacAddress": "02:00:00:00:00:0A", "Address": "10.1.0.2/16"}
        given = await it.call(CREATE, NetworkID="d1", EndpointID="e2", Interface=chosen)
        assert given["Interface"]["MacAddress"] == ""
        macs = {one.mac_address for one in outside.master.endpoints.values()}
        assert "02:00:00:00:00:0a" in macs


async def test_a_repeated_call_has_the_same_answer(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        first = await it.call(CREATE, **ENDPOINT)
        await it.call(JOIN, **ENDPOINT, SandboxKey="/a")
        assert await it.call(CREATE, **ENDPOINT) == first
        assert len(outside.master.endpoints) == 1
        (entry,) = outside.journal.entries.values()
        assert entry.netns == "/a"


async def test_an_address_that_is_reserved_becomes_the_endpoints(
    outside: Outside, tmp_path: Path
) -> None:
    """Docker releases it afterwards, when it may be another host's already."""
    async with drivers(outside, tmp_path) as it:
        await made(it)
        pool = "n1.default|10.1.0.0/16"
        given = await it.call("IpamDriver.RequestAddress", PoolID=pool, Address="10.1.0.9")
        await it.call(CREATE, **ENDPOINT, Interface={"Address": given["Address"]})
        await it.call("IpamDriver.ReleaseAddress", PoolID=pool, Address="10.1.0.9")
        assert outside.master.reserved == {("n1.default", "10.1.0.9")}


async def test_a_late_release_leaves_the_next_containers_reservation(
    outside: Outside, tmp_path: Path
) -> None:
    """Also where the agent has begun in between."""
    own = {"PoolID": "n1.default|10.1.0.0/16", "Address": "10.1.0.9"}
    async with drivers(outside, tmp_path) as it:
        await made(it)
        await it.call("IpamDriver.RequestAddress", **own)
        await it.call(CREATE, **ENDPOINT, Interface={"Address": "10.1.0.9/16"})
    outside.master.reserved.clear()
    async with drivers(outside, tmp_path) as it:
        await it.call(DELETE, **ENDPOINT)
        await it.call("IpamDriver.RequestAddress", **own)
        await it.call("IpamDriver.ReleaseAddress", **own)
        assert outside.master.reserved == {("n1.default", "10.1.0.9")}


@pytest.mark.parametrize(
    ("step", "failure"),
    [
        ("create", Exhausted("address exhaustion")),
        ("link", HostError("no such device")),
        ("journal present", HostError("disk full")),
    ],
)
async def test_what_fails_leaves_nothing(
    outside: Outside, tmp_path: Path, step: str, failure: ContivError
) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        outside.faults.failing[step] = failure
        with pytest.raises(type(failure), match=str(failure)):
            await it.call(CREATE, **ENDPOINT)
        outside.faults.failing.clear()
        await left_nothing(it.agent)
        with pytest.raises(NotFound, match="create it first"):
            await it.call(JOIN, **ENDPOINT, SandboxKey="/a")


async def test_networks_that_stand_for_nothing(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        with pytest.raises(NotFound, match="docker network d1 is none of our networks"):
            await it.call(CREATE, **ENDPOINT)
        gone = {"com.docker.network.generic": {"network": "gone"}}
        await it.call("NetworkDriver.CreateNetwork", NetworkID="d2", Options=gone)
        with pytest.raises(NotFound, match="network gone"):
            await it.call(CREATE, NetworkID="d2", EndpointID="e1")
        await left_nothing(it.agent)


async def test_an_address_that_is_another_containers(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        await it.call(CREATE, **ENDPOINT, Interface={"Address": "10.1.0.9/16"})
        taken = {"Address": "10.1.0.9/16"}
        with pytest.raises(Conflict, match=r"10.1.0.9 is not available"):
            await it.call(CREATE, NetworkID="d1", EndpointID="e2", Interface=taken)


async def test_the_next_agent_keeps_containers(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        await it.call(CREATE, **ENDPOINT)
        await it.call(JOIN, **ENDPOINT, SandboxKey="/a")
    async with drivers(outside, tmp_path) as it:
        assert len(it.agent.registry.keys()) == 1
        assert (await it.names.place_of("d1")).network == "n1"
        await it.call(DELETE, **ENDPOINT)
        await eventually(lambda: it.agent.traces()[:4] == NOTHING_LEFT[:4])


async def test_a_network_without_gateway_names_none(outside: Outside, tmp_path: Path) -> None:
    """Docker's own bridge leads outside; the agent adds no interface to the host."""
    async with drivers(outside, tmp_path, (network(gateway=""),)) as it:
        await made(it)
        await it.call(CREATE, **ENDPOINT)
        assert (await it.call(JOIN, **ENDPOINT, SandboxKey="/a"))["Gateway"] == ""
        assert list(outside.links.there) == ["vvport1"]


async def test_links_follow_the_mtu_by_their_peers(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        await made(it)
        await it.call(CREATE, **ENDPOINT)
        await it.call(JOIN, **ENDPOINT, SandboxKey="/a")
        await it.agent.mtus.read()
        it.agent.sup.supervise("MTU", it.agent.mtus.run())
        outside.links.underlay["eth0"] = 1400
        outside.links.changed.set()
        await eventually(lambda: outside.links.peer_mtus.get("vvport1") == ("/a", 1350))


async def test_nothing_is_done_for_what_is_only_told(outside: Outside, tmp_path: Path) -> None:
    async with drivers(outside, tmp_path) as it:
        for name in ("ProgramExternalConnectivity", "RevokeExternalConnectivity"):
            assert await it.call(f"NetworkDriver.{name}", **ENDPOINT, Options={}) == {}
        assert await it.call("NetworkDriver.EndpointOperInfo", **ENDPOINT) == {"Value": None}
        assert await it.call("IpamDriver.ReleasePool", PoolID="x|10.1.0.0/16") == {}


async def test_a_pod_of_cni_is_no_container(outside: Outside) -> None:
    async with running(outside) as agent:
        with pytest.raises(NotFound):
            await agent.pods.join("c1", "/a")
