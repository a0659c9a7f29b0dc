"""Node ports: which pod of this host each leads to (the original's TestNodeProxy)."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core import keys
from core.tasks import background
from netplugin.bridges.node_ports import Chosen, NodePort, NodePorts, choose, rule
from netplugin.kube.api import KubeApi, KubeChange, KubeList
from netplugin.kube.config import KubeConfig
from netplugin.kube.feed import KubeFeed
from netplugin.world.conversion import LocalPort
from netplugin.world.kube_services import ENDPOINTS, SERVICES, KubePort, KubeService
from tests.bed.kubernetes import endpoints, service
from tests.unit.netplugin.agent import Agent, Outside, eventually, running
from tests.unit.netplugin.bridges.test_host_access import settings
from tests.unit.netplugin.records import endpoint, key
from tests.unit.netplugin.world.test_kube_services import said

HERE = {
    IPv4Address("23.4.5.6"): IPv4Address("172.20.0.2"),
    IPv4Address("23.4.5.8"): IPv4Address("172.20.0.3"),
    IPv4Address("23.4.5.9"): IPv4Address("172.20.0.12"),
}
PORT = NodePort("tcp", 19201)


def lip(*providers: int, node_port: int = 19201, name: str = "LipService") -> KubeService:
    """Return the original's service, served by 23.4.5.<providers>."""
    targets = frozenset((IPv4Address(f"23.4.5.{number}"), 9601) for number in providers)
    return KubeService(
        namespace="default",
        name=name,
        address=IPv4Address("10.254.0.10"),
        ports=(
            KubePort(protocol="TCP", port=5600, targets=frozenset({(IPv4Address(1), 9600)})),
            KubePort(protocol="TCP", port=5601, node_port=node_port, targets=targets),
        ),
    )


def led(chosen: dict[NodePort, Chosen]) -> dict[NodePort, str]:
    return {here: f"{there.address}:{there.port}" for here, there in chosen.items()}


def test_a_provider_of_this_host_is_led_to() -> None:
    assert led(choose([lip(6)], HERE, {})) == {PORT: "172.20.0.2:9601"}


@pytest.mark.parametrize("providers", [(), (7,), (7, 10)])
def test_without_a_provider_of_this_host_there_is_no_rule(providers: tuple[int, ...]) -> None:
    before = choose([lip(6)], HERE, {})
    assert choose([lip(*providers)], HERE, before) == {}
    assert choose([], HERE, before) == {}
    assert choose([lip(6)], {}, before) == {}


def test_the_one_chosen_stays_as_long_as_it_serves() -> None:
    first = choose([lip(8)], HERE, {})
    assert led(first) == {PORT: "172.20.0.3:9601"}
    assert choose([lip(6, 8)], HERE, first) == first
    second = choose([lip(6)], HERE, first)
    assert led(second) == {PORT: "172.20.0.2:9601"}
    assert choose([lip(6, 8)], HERE, second) == second


@pytest.mark.parametrize(
    ("providers", "last"), [((9, 8, 7), 3), ((6, 8), 2), ((6, 9), 2), ((9, 8, 6), 2)]
)
def test_of_several_the_lowest_is_chosen(providers: tuple[int, ...], last: int) -> None:
    assert led(choose([lip(*providers)], HERE, {})) == {PORT: f"172.20.0.{last}:9601"}


def test_a_node_port_that_is_taken_stays_whose_it_is() -> None:
    one, other = lip(6), lip(8, name="AnotherService")
    first = choose([one], HERE, {})
    assert choose([one, other], HERE, first) == first
    assert choose([other, one], HERE, first) == first
    gone_elsewhere = choose([lip(7), other], HERE, first)
    assert gone_elsewhere == {}, "it is still wanted by the one that has it"
    moved = choose([one, lip(8, name="AnotherService", node_port=19202)], HERE, first)
    assert led(moved) == {PORT: "172.20.0.2:9601", NodePort("tcp", 19202): "172.20.0.3:9601"}
    assert led(choose([other], HERE, first)) == {PORT: "172.20.0.3:9601"}


def test_another_node_port_takes_the_place_of_the_first() -> None:
    first = choose([lip(6)], HERE, {})
    changed = choose([lip(6, node_port=19203)], HERE, first)
    assert led(changed) == {NodePort("tcp", 19203): "172.20.0.2:9601"}


def test_protocols_have_ports_of_their_own() -> None:
    tcp = lip(6)
    udp = replace(tcp, name="udp", ports=(replace(lip(8).ports[1], protocol="UDP"),))
    sctp = replace(tcp, name="sctp", ports=(replace(lip(8).ports[1], protocol="SCTP"),))
    assert led(choose([tcp, udp, sctp], HERE, {})) == {
        PORT: "172.20.0.2:9601",
        NodePort("udp", 19201): "172.20.0.3:9601",
    }


def test_a_rule() -> None:
    assert str(rule(PORT, Chosen("default/x", IPv4Address("172.20.0.2"), 9601))) == (
        "nat PREROUTING -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 19201 "
        "-m comment --comment contiv -j DNAT --to-destination 172.20.0.2:9601"
    )


# -- kept ------------------------------------------------------------------------------------------


def fed(agent: Agent) -> tuple[KubeFeed, NodePorts]:
    config = KubeConfig.model_validate({"K8S_API_SERVER": "http://192.0.2.1"})
    feed = KubeFeed(KubeApi(config), agent.world)
    node_ports = NodePorts(
        feed=feed,
        iptables=agent.outside.firewall,
        world=agent.world,
        reconciler=agent.reconciler,
        interval=60,
    )
    return feed, node_ports


SERVICE = said(service("10.96.0.1", {"port": 80, "nodePort": 30080}))
SERVED = said(endpoints((["10.1.0.1"], [{"port": 8080}])))
LEADS = "--dport 30080 -m comment --comment contiv -j DNAT --to-destination 172.19.0.1:8080"


async def test_rules_follow_services_and_pods(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        feed, node_ports = fed(agent)

        def rules() -> list[str]:
            return [str(one).partition("-m tcp ")[2] for one in outside.firewall.rules]

        async with background("node ports", node_ports.run()):
            feed.apply(SERVICES, KubeList((SERVICE,)))
            feed.apply(ENDPOINTS, KubeList((SERVED,)))
            await eventually(lambda: rules() == [])
            port = LocalPort(record=endpoint(1), ofport=5, number=1)
            await agent.reconciler.put_port(key("c1"), port)
            await eventually(lambda: rules() == [LEADS])
            await agent.reconciler.remove_port(key("c1"))
            await eventually(lambda: rules() == [])
            await agent.reconciler.put_port(key("c1"), port)
            await eventually(lambda: rules() == [LEADS])
            feed.apply(ENDPOINTS, KubeChange(said({}), deleted=False))
            await eventually(lambda: rules() == [])


async def test_a_pod_that_comes_later_is_not_led_to(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        feed, node_ports = fed(agent)
        feed.apply(SERVICES, KubeList((SERVICE,)))
        feed.apply(
            ENDPOINTS, KubeList((said(endpoints((["10.1.0.1", "10.1.0.2"], [{"port": 1}]))),))
        )
        for number in (2, 1):
            port = LocalPort(record=endpoint(number), ofport=4 + number, number=number)
            await agent.reconciler.put_port(key(f"c{number}"), port)
            await node_ports.converge()
            (led_to,) = map(str, outside.firewall.rules)
            assert led_to.endswith("172.19.0.2:1")


async def test_nothing_is_touched_until_all_services_are_known(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn(keys.GLOBAL_CONFIG, settings())
        await agent.host_access.converge()
        before = list(outside.firewall.rules)
        feed, node_ports = fed(agent)
        await node_ports.converge()
        feed.apply(SERVICES, KubeList(()))
        await node_ports.converge()
        assert outside.firewall.rules == before
        feed.apply(ENDPOINTS, KubeList(()))
        await node_ports.converge()
        assert outside.firewall.rules == []
