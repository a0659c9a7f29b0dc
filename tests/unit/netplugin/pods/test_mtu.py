"""Pods send what the links carry, also when these change; what does not fit is said."""

from ipaddress import IPv4Address, IPv4Network

import pytest

from core.errors import HostError, SwitchRefused, UsageError
from core.tasks import background
from netplugin.ovsdb import PortSpec
from netplugin.pods.mtu import PodMtus, UnderlayMtu
from netplugin.world.bridges import port_names
from ofnet.world import Bridge, HostPort
from state.records import Encap
from tests.unit.netplugin.agent import Agent, Outside, eventually, request, running
from tests.unit.netplugin.fakes import UNDERLAY_CARD
from tests.unit.netplugin.records import network


def pod_mtus(agent: Agent, *, uplinks: tuple[str, ...] = (), wanted: int | None = None) -> PodMtus:
    """Return MTUs that have not been read yet."""
    return PodMtus(
        agent.pod_services.host,
        vtep_ips=(IPv4Address("192.0.2.1"),),
        uplinks=uplinks,
        wanted=wanted,
    )


def errors(agent: Agent) -> tuple[str, ...]:
    return agent.progress.standing.errors


def mtus_of_pods(outside: Outside) -> set[int]:
    return {spec.mtu for spec in outside.links.there.values() if spec is not None}


@pytest.mark.parametrize(
    ("underlay", "vxlan", "vlan"),
    [
        (UnderlayMtu(1500), 1450, 1500),
        (UnderlayMtu(1460, (9000,)), 1410, 9000),
        (UnderlayMtu(9000, (1500, 1400)), 8950, 1400),
        (UnderlayMtu(1500, (), 70), 1430, 1500),
    ],
)
def test_what_the_links_carry(underlay: UnderlayMtu, vxlan: int, vlan: int) -> None:
    assert (underlay.carries(Bridge.VXLAN), underlay.carries(Bridge.VLAN)) == (vxlan, vlan)


async def test_the_links_of_others_do_not_count(outside: Outside) -> None:
    outside.links.underlay = {UNDERLAY_CARD: 9000, "docker0": 1280, "eth1": 1500}
    async with running(outside) as agent:
        mtus = pod_mtus(agent, uplinks=("eth1",))
        await mtus.read()
        assert (mtus.of(Bridge.VXLAN), mtus.of(Bridge.VLAN)) == (8950, 1500)


async def test_what_is_wanted_is_taken_if_it_fits(outside: Outside) -> None:
    async with running(outside) as agent:
        mtus = pod_mtus(agent, wanted=1300)
        await mtus.read()
        assert mtus.of(Bridge.VXLAN) == mtus.of(Bridge.VLAN) == 1300


@pytest.mark.parametrize(("uplinks", "wanted"), [((), 1451), (("eth1",), 1401)])
async def test_what_does_not_fit_is_refused_with_a_remedy(
    outside: Outside, uplinks: tuple[str, ...], wanted: int
) -> None:
    outside.links.underlay["eth1"] = 1400
    async with running(outside) as agent:
        mtus = pod_mtus(agent, uplinks=uplinks, wanted=wanted)
        with pytest.raises(UsageError, match=rf"{wanted}.*set --mtu to {wanted - 1} or less"):
            await mtus.read()


async def test_without_its_links_an_agent_does_not_start(outside: Outside) -> None:
    async with running(outside) as agent:
        mtus = pod_mtus(agent, uplinks=("eth7",))
        with pytest.raises(HostError, match="no link eth7: correct --vtep-ip"):
            await mtus.read()
        outside.links.underlay.clear()
        with pytest.raises(HostError, match="no link of this host has the address"):
            await pod_mtus(agent).read()


async def test_pods_follow_the_links(outside: Outside) -> None:
    outside.set_timing(mtu_rescan=0.0)
    async with running(outside) as agent, background("MTU", agent.mtus.run()):
        assert (await agent.pods.add(request("c1"))).mtu == 1450
        assert mtus_of_pods(outside) == {1450}
        outside.links.underlay[UNDERLAY_CARD] = 9000
        outside.links.changed.set()
        await eventually(lambda: mtus_of_pods(outside) == {8950})
        assert (await agent.pods.add(request("c2"))).mtu == 8950
        assert mtus_of_pods(outside) == {8950}
        assert errors(agent) == ()


async def test_interfaces_to_the_host_follow_tunnels(outside: Outside) -> None:
    """Also those of pods on vlan networks: the host's own port is among the tunnels' pods."""
    outside.set_timing(mtu_rescan=0.0)
    private = HostPort(ofport=9, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
    bare = network(gateway="", encap=Encap.VLAN)
    async with running(outside, (bare,)) as agent, background("MTU", agent.mtus.run()):
        agent.world.endpoints.set_host_port(private)
        await agent.pods.add(request())

        def have() -> list[int]:
            links = [outside.links.there[name] for name in ("vvport1", "hport1")]
            return [link.mtu for link in links if link is not None]

        assert have() == [1500, 1450]
        outside.links.underlay[UNDERLAY_CARD] = 9000
        outside.links.changed.set()
        await eventually(lambda: have() == [9000, 8950])


async def test_the_hosts_own_interfaces_follow_too(outside: Outside) -> None:
    outside.set_timing(mtu_rescan=0.0)
    ours = {port_names.ENDPOINT_ID: "infra"}
    wanted = {"contivh1": 1450, "ours": 1500, "theirs": None, "vvport7": None}
    for name, bridge, kind, ids in (
        ("contivh1", Bridge.VXLAN, "internal", ours),
        ("ours", Bridge.VLAN, "internal", ours),
        ("theirs", Bridge.VXLAN, "internal", {}),
        ("vvport7", Bridge.VXLAN, "", ours),
    ):
        spec = PortSpec(name=name, type=kind, external_ids=ids)  # type: ignore[arg-type]
        await outside.ovsdb.add_port(bridge, spec)

    def asked() -> dict[str, int | None]:
        return {name: row.mtu_request for name, row in outside.ovsdb.ports().items()}

    async with running(outside) as agent, background("MTU", agent.mtus.run()):
        await eventually(lambda: asked() == wanted)
        outside.faults.failing["own mtu"] = SwitchRefused("no")
        outside.links.underlay[UNDERLAY_CARD] = 9000
        outside.links.changed.set()
        await eventually(lambda: "MTU of pods not in sync: contivh1: no" in str(errors(agent)))
        outside.faults.failing.clear()
        outside.links.changed.set()
        await eventually(lambda: asked() == {**wanted, "contivh1": 8950, "ours": 9000})
        await eventually(lambda: errors(agent) == ())


async def test_pods_that_changed_while_the_agent_was_away_are_corrected(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request("c1"))
    outside.links.underlay[UNDERLAY_CARD] = 1400
    async with running(outside) as agent, background("MTU", agent.mtus.run()):
        await eventually(lambda: mtus_of_pods(outside) == {1350})


async def test_what_is_wrong_is_reported_and_then_is_not(outside: Outside) -> None:
    outside.set_timing(mtu_rescan=0.0)
    async with running(outside) as agent:
        mtus = pod_mtus(agent, wanted=1450)
        await mtus.read()
        async with background("MTU", mtus.run()):
            outside.links.underlay[UNDERLAY_CARD] = 1400
            outside.links.changed.set()
            await eventually(lambda: "links carry 1350" in "".join(errors(agent)))
            del outside.links.underlay[UNDERLAY_CARD]
            outside.links.changed.set()
            await eventually(lambda: "MTU of pods not in sync: no link" in "".join(errors(agent)))
            assert mtus.of(Bridge.VXLAN) == 1450
            outside.links.underlay[UNDERLAY_CARD] = 1500
            outside.links.changed.set()
            await eventually(lambda: errors(agent) == ())


async def test_a_pod_that_cannot_be_set_is_reported(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request("c1"))
        outside.faults.failing["mtu"] = HostError("no")
        outside.links.underlay[UNDERLAY_CARD] = 1400
        async with background("MTU", agent.mtus.run()):
            await eventually(lambda: "MTU of pods not in sync: pod c1: no" in errors(agent))
            (entry,) = agent.registry.entries()
            assert port_names.switch_name(entry.port) in outside.links.there
