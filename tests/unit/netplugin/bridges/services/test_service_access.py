"""What keeps the rules of services: when they are made, in which order, and when removed.

An agent with a feed is looked at. Fakes are only the host's rules and settings beneath it, which
show what is there; a step that has to come before another one is made to fail.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from core.errors import HostError
from netplugin.bridges.services.health_checks import ServiceHealth
from netplugin.bridges.services.service_access import (
    ServiceAccess,
    health_checks,
    hooks,
    loopback_guards,
)
from netplugin.bridges.services.service_rules import Here
from netplugin.kube.api import KubeList
from netplugin.kube.config import KubeConfig
from netplugin.kube.feed import KubeFeed
from netplugin.kube.resources import NAMESPACES, NODES, POLICIES, SERVICES, SLICES, pods_of
from netplugin.settings import KubeProxy
from netplugin.startup.kubernetes import build_feed, build_kubernetes
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from tests.bed.netns import free_port
from tests.unit.netplugin.agent import Agent, Outside, running
from tests.unit.netplugin.bridges.services.health import asked
from tests.unit.netplugin.world.kube_services import piece, said

NODE = "h1"
ADDRESS = IPv4Address("192.168.2.10")
"""This host's."""
SERVED = [{"addresses": [one], "conditions": {"ready": True}} for one in (str(ADDRESS), "10.1.0.2")]
BOTH_LINKS = {"contivh0", "contivv0"}


def web(health_port: int, *addresses: str) -> dict[str, Any]:
    """Return a service with endpoints on this host and on another."""
    return said(
        {
            "spec": {
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Local",
                "healthCheckNodePort": health_port,
                "clusterIP": addresses[0],
                "clusterIPs": [*addresses],
                "ports": [
                    {"name": "http", "port": 80, "protocol": "TCP"},
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                ],
            }
        }
    )


@dataclass(frozen=True, slots=True)
class ServedHost:
    """An agent that follows Kubernetes, which names one service."""

    agent: Agent
    feed: KubeFeed
    access: ServiceAccess

    def list_services(self, *services: dict[str, Any]) -> None:
        self.feed.apply(SERVICES, KubeList(SERVICES, "7", services))

    def list_others(self) -> None:
        """Have everything else listed: with this the feed is complete."""
        ports = [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
        self.feed.apply(SLICES, KubeList(SLICES, "7", (piece("web-a", *SERVED, ports=ports),)))
        for resource in (pods_of(NODE), NAMESPACES, NODES, *POLICIES):
            self.feed.apply(resource, KubeList(resource, "7", ()))


@asynccontextmanager
async def serving(outside: Outside) -> AsyncIterator[ServedHost]:
    """Run an agent beside an API server that has listed nothing yet."""
    config = KubeConfig.model_validate(
        {"K8S_API_SERVER": "http://192.0.2.1", "K8S_NODE_NAME": NODE}
    )
    async with running(outside) as agent:
        followed = build_feed(agent.context, agent.dataplane, config, {})
        assert followed is not None
        parts = agent.context, agent.clients, agent.dataplane, agent.pod_services
        served = ServedHost(agent, followed.feed, build_kubernetes(*parts, followed).access)
        yield served
        served.list_services()
        outside.faults.failing.clear()
        await served.access.converge()  # which ends the answers to health checks


async def test_rules_answers_and_datagrams_are_those_of_services(outside: Outside) -> None:
    async with serving(outside) as host:
        port = free_port()
        host.list_services(web(port, "10.96.0.1"))
        host.list_others()
        await host.access.converge()
        assert set(outside.firewall.rules) == {*loopback_guards(), *hooks(4)}
        assert outside.chains.there.keys() == {(4, "nat"), (4, "filter")}
        assert "10.96.0.1" in str(outside.chains.there[4, "nat"])
        assert outside.routing_localnet == BOTH_LINKS
        assert (await asked(port))[1]["localEndpoints"] == 1
        led, _ = outside.ways[-1]
        assert led.keys() == {(IPv4Address("10.96.0.1").packed, 53)}
        host.list_services()
        await host.access.converge()
        assert "10.96.0.1" not in str(outside.chains.there[4, "nat"])
        with pytest.raises(ConnectionRefusedError):
            await asked(port)


async def test_a_next_agent_leads_datagrams_away_from_what_the_rules_before_said(
    outside: Outside,
) -> None:
    rule = "-d 10.96.0.9/32 -p udp -m udp --dport 53 -j CONTIV-GONE"
    outside.chains.there[4, "nat"] = {"CONTIV-SERVICES": [rule]}
    async with serving(outside) as host:
        host.list_services()
        host.list_others()
        await host.access.converge()
        _, former = outside.ways[-1]
        assert former == {(IPv4Address("10.96.0.9").packed, 53)}


async def test_chains_come_before_what_leads_to_them(outside: Outside) -> None:
    async with serving(outside) as host:
        host.list_services(web(free_port(), "10.96.0.1"))
        host.list_others()
        outside.faults.failing["chains of IPv4"] = HostError("no chains")
        with pytest.raises(HostError, match=r"^IPv4: no chains$"):
            await host.access.converge()
        assert outside.firewall.rules == []
        assert outside.routing_localnet == set()


@pytest.mark.parametrize("broken", [4, 6])
async def test_one_family_that_fails_does_not_stop_the_other(outside: Outside, broken: int) -> None:
    async with serving(outside) as host:
        port, other = free_port(), {4: 6, 6: 4}[broken]
        host.list_services(web(port, "10.96.0.1", "fd00::1"))
        host.list_others()
        outside.faults.failing[f"rules of IPv{broken}"] = HostError("no rules")
        with pytest.raises(HostError, match=f"^IPv{broken}: no rules$"):
            await host.access.converge()
        assert {rule.chain.version for rule in outside.firewall.rules} == {other}
        assert (await asked(port))[0] == 200
        guarded = broken == 6
        assert outside.routing_localnet == (BOTH_LINKS if guarded else set()), "not without guards"


async def test_loopback_addresses_are_not_routed_by_all_links(outside: Outside) -> None:
    """kube-proxy and earlier releases of the agent have them routed."""
    outside.routing_localnet.add("all")
    async with serving(outside) as host:
        host.list_others()
        host.list_services()
        await host.access.converge()
        assert outside.routing_localnet == BOTH_LINKS


async def test_nothing_is_touched_before_all_services_are_listed(outside: Outside) -> None:
    async with serving(outside) as host:
        host.list_services(web(free_port(), "10.96.0.1"))
        assert await host.access.converge() is None
        assert (outside.firewall.rules, outside.chains.there) == ([], {})
        host.list_others()


def test_targets_of_this_host_are_counted() -> None:
    targets = frozenset(
        KubeTarget(address=one, port=8080) for one in (ADDRESS, IPv4Address("10.1.0.2"))
    )
    port = KubePort(name="http", protocol="TCP", port=80, targets=targets)
    service = KubeService(
        namespace="shop",
        name="web",
        addresses=(IPv4Address("10.96.0.1"),),
        health_check_node_port=30999,
        ports=(port,),
    )
    here = Here(address=ADDRESS, targets=frozenset({ADDRESS}), private=None)
    assert health_checks([service], here) == {30999: ServiceHealth("shop", "web", 1)}
    ending = replace(service, ports=(replace(port, draining=targets),))
    assert health_checks([ending], here) == {30999: ServiceHealth("shop", "web", 0)}, "nothing new"


def test_there_are_two_ways_beside_kube_proxy() -> None:
    assert [one.value for one in KubeProxy] == ["replace", "coexist"]
