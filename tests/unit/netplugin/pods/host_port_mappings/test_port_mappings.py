"""Host ports through the life of a pod: claimed, set, kept over a restart, compared, removed."""

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.errors import Conflict, HostError, Invalid
from netplugin.cni import results
from netplugin.cni.errors import InterfaceDiffers
from netplugin.cni.port_mappings import PortMapping
from netplugin.cni.request import PodRequest
from netplugin.pods.host_port_mappings.mapping_rules import PORTS
from netplugin.world.management import management_ports
from tests.unit.netplugin.agent import (
    Agent,
    Outside,
    left_nothing,
    request,
    running,
)
from tests.unit.netplugin.records import asking, key
from tests.unit.netplugin.worlds import four_of, settings

pytestmark = pytest.mark.usefixtures("hurried")


def having_settings(outside: Outside) -> AbstractAsyncContextManager[Agent]:
    """Run an agent in a cluster that has a private network."""
    return running(outside, known=(settings(pvt_subnet="172.19.0.0/16"),))


def mapping(host_port: int = 8080, container_port: int = 80, host_ip: str = "") -> PortMapping:
    return PortMapping(
        protocol="tcp", host_port=host_port, container_port=container_port, host_ip=host_ip
    )


def asked(container: str = "c1", *mappings: PortMapping) -> PodRequest:
    return asking(request(container), mappings=mappings or (mapping(),))


def translations(outside: Outside) -> list[str]:
    """Return the rules that translate, by which the kernel's chains lead somewhere."""
    chains = outside.chains.there.get((4, "nat"), {})
    assert bool(chains) == bool(outside.port_rules.rules), "no hook without a chain"
    return list(chains.get(PORTS, ()))


async def test_a_host_port_is_set_before_the_add_is_answered(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        result = await agent.calls.pods.add(asked())
        (rule,) = translations(outside)
        assert rule == (f"-p tcp -m tcp --dport 8080 -j DNAT --to-destination {four_of(result)}:80")
        assert outside.routing_localnet == {"contivh0", "contivv0"}
        (entry,) = outside.journal.entries.values()
        assert entry.spec.mappings == (mapping(),)


async def test_the_rules_go_before_the_address_is_released(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked())
        gate = outside.faults.stop("release")
        await agent.calls.pods.delete(request())
        assert translations(outside) == []
        assert outside.master.endpoints, "not released yet"
        gate.set()
        await left_nothing(agent)


async def test_pods_without_host_ports_touch_no_rules(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.pod_services.mappings.converge()
        before = outside.faults.reached["chains"]
        await agent.calls.pods.add(request())
        await agent.calls.pods.delete(request())
        await agent.pod_services.mappings.converge()
        assert outside.faults.reached["chains"] == before
        assert not outside.routing_localnet


async def test_a_taken_host_port_is_refused_and_changes_nothing(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked())
        before = translations(outside), dict(outside.journal.entries)
        refused = f"host port tcp 8080.* is taken by endpoint {key('c1')}"
        for other in (mapping(), mapping(container_port=81), mapping(host_ip="192.0.2.1")):
            with pytest.raises(Conflict, match=refused):
                await agent.calls.pods.add(asked("c2", other))
        assert (translations(outside), outside.journal.entries) == before
        await agent.calls.pods.add(asked("c2", mapping(8081)))
        await agent.calls.pods.delete(request())
        await agent.calls.pods.add(asked("c3"))
        assert len(translations(outside)) == 2


async def test_an_add_that_cannot_set_its_rules_leaves_nothing(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        outside.faults.failing["chains"] = HostError("iptables: no lock")
        with pytest.raises(HostError, match="no lock"):
            await agent.calls.pods.add(asked())
        outside.faults.failing.clear()
        await agent.pod_services.mappings.converge()
        await left_nothing(agent)
        assert translations(outside) == []
        await agent.calls.pods.add(asked())
        assert translations(outside)


@pytest.mark.parametrize("family", [4, 6])
async def test_an_add_needs_the_families_of_its_pod(outside: Outside, family: int) -> None:
    async with having_settings(outside) as agent:
        outside.faults.failing[f"chains of IPv{family}"] = HostError("not here")
        if family == 4:
            with pytest.raises(HostError, match="IPv4: not here"):
                await agent.calls.pods.add(asked())
        else:
            await agent.calls.pods.add(asked())
            assert translations(outside)


async def test_a_delete_does_not_fail_by_its_rules_which_go_later(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked())
        outside.faults.failing["chains"] = HostError("iptables: no lock")
        await agent.calls.pods.delete(request())
        outside.faults.failing.clear()
        await agent.pod_services.mappings.converge()
        assert translations(outside) == []


async def test_a_family_that_the_pod_lacks_is_refused(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        with pytest.raises(Conflict, match="the pod has no such address"):
            await agent.calls.pods.add(asked("c1", mapping(host_ip="2001:db8::1")))
        await left_nothing(agent)
        assert translations(outside) == []


async def test_a_repeated_add_changes_host_ports(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        first = await agent.calls.pods.add(asked())
        agent.learn("k", outside.master.endpoints[key("c1")])
        assert await agent.calls.pods.add(asked()) == first
        await agent.calls.pods.add(asked("c1", mapping(8081)))
        (rule,) = translations(outside)
        assert "--dport 8081 " in rule


async def test_the_next_agent_keeps_host_ports(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked())
        before = translations(outside)
    outside.chains.there.clear()  # by another program, meanwhile
    async with having_settings(outside) as agent:
        await agent.pod_services.mappings.converge()
        assert translations(outside) == before
        with pytest.raises(Conflict, match="is taken"):
            await agent.calls.pods.add(asked("c2"))


async def test_the_loop_heals_and_drops_what_is_cut_off(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked())
        before = translations(outside)
        outside.chains.there.clear()
        outside.port_rules.rules.clear()
        await agent.pod_services.mappings.converge()
        assert translations(outside) == before
        # netmaster reclaimed the endpoint: its address may be another pod's by now
        agent.pods.remove_flows(key("c1"))
        await agent.pod_services.mappings.converge()
        assert translations(outside) == []


async def test_check_names_what_is_missing(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        result = await agent.calls.pods.add(asked())
        agent.learn("k", outside.master.endpoints[key("c1")])
        checked = replace(asked(), previous=json.loads(results.added(result, asked())["cni"]))
        await agent.calls.checks.check(checked)
        with pytest.raises(InterfaceDiffers, match="portMappings are not those of the ADD"):
            await agent.calls.checks.check(asking(checked, mappings=()))
        outside.chains.there.clear()
        outside.port_rules.rules.clear()
        with pytest.raises(InterfaceDiffers) as caught:
            await agent.calls.checks.check(checked)
        assert "host port tcp 8080 does not lead to the pod by IPv4" in str(caught.value)
        assert "PREROUTING" in str(caught.value)


async def test_without_a_private_network_there_are_none(outside: Outside) -> None:
    async with running(outside) as agent:
        with pytest.raises(Invalid, match="private network"):
            await agent.calls.pods.add(asked())


async def test_a_store_that_forgot_the_pod_keeps_its_host_port_closed(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked())
    outside.master.endpoints.clear()
    async with having_settings(outside) as agent:
        await agent.pod_services.mappings.converge()
        assert translations(outside) == []


async def test_a_host_port_of_the_management_is_refused(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        with pytest.raises(Conflict, match="host port tcp 9090 is one of this cluster's manag"):
            await agent.calls.pods.add(asked("c1", mapping(9090)))
        await left_nothing(agent)
        assert translations(outside) == []


async def test_a_host_port_gives_way_to_a_master_that_comes_with_it(outside: Outside) -> None:
    async with having_settings(outside) as agent:
        await agent.calls.pods.add(asked("c1", mapping(8080), mapping(8081)))
        agent.world.management.set_ports("masters", management_ports([8081]))
        await agent.pod_services.mappings.converge()
        (rule,) = translations(outside)
        assert "--dport 8080 " in rule
        (entry,) = agent.pod_services.host.registry.entries()
        (fault,) = await agent.pod_services.mappings.faults(entry)
        assert "host port tcp 8081 does not lead to the pod" in fault


@pytest.mark.parametrize("host_ip", ["", "0.0.0.0", "192.168.2.10"])
async def test_a_port_that_a_program_of_the_host_has_is_refused(
    outside: Outside, host_ip: str
) -> None:
    outside.ports_in_use = {("tcp", IPv4Address("192.168.2.10"), 22)}
    async with having_settings(outside) as agent:
        with pytest.raises(Conflict, match="taken by a program of this host"):
            await agent.calls.pods.add(asked("c1", mapping(22, host_ip=host_ip)))
        await left_nothing(agent)
        await agent.calls.pods.add(asked("c1", mapping(22, host_ip="192.0.2.77")))
