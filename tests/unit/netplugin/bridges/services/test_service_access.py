"""What keeps the rules of services: when they are made, in which order, and when removed."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import HostError
from netplugin.bridges.services.health_checks import ServiceHealth
from netplugin.bridges.services.service_access import (
    HostRules,
    ServiceAccess,
    health_checks,
    hooks,
    loopback_guards,
)
from netplugin.bridges.services.service_rules import Here
from netplugin.bridges.services.stale_datagrams import Ways
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.kernel.firewall.iptables import IptablesRule
from netplugin.kernel.firewall.iptables_chains import Chains
from netplugin.settings import KubeProxy
from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from ofnet.world import FwdMode
from tests.unit.netplugin.records import HOST

ADDRESS = IPv4Address("192.168.2.10")
SERVICE = KubeService(
    namespace="shop",
    name="web",
    addresses=(IPv4Address("10.96.0.1"),),
    health_check_node_port=30999,
    ports=(
        KubePort(
            name="http",
            protocol="TCP",
            port=80,
            targets=frozenset(
                KubeTarget(address=one, port=8080) for one in (ADDRESS, IPv4Address("10.1.0.2"))
            ),
        ),
    ),
)


class Outside:
    """The clients of rules: what they were told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.failing: set[str] = set()
        self.shown: list[str] = []
        self.remembered: list[str] = []

    async def replace(self, version: int, wanted: Chains) -> None:
        self.told.append(("chains", (version, sorted(wanted))))

    async def remove(self, tables: Sequence[str]) -> None:
        self.told.append(("removed", tuple(tables)))

    async def keep(self, wanted: Any, versions: Sequence[int] = ()) -> bool:
        kind = "health" if isinstance(wanted, dict) else f"rules of IPv{max(versions)}"
        self.told.append((kind, list(wanted)))
        if kind in self.failing:
            raise HostError(f"{kind} fail")
        return True

    async def rules(self, version: int, table: str, name: str) -> list[str]:
        return [f"{version} {table} {name}"]

    def remember(self, rules: Sequence[str]) -> None:
        self.remembered += rules

    async def follow(self, owner: str, ways: Ways) -> None:
        self.told.append(("datagrams", (owner, ways.ends)))

    def set_faults(self, _subject: str, faults: Iterable[str]) -> None:
        self.shown += faults

    async def route_localnet(self, link: str, *, wanted: bool = True) -> None:
        self.told.append(("localnet", (link, wanted)))


def access(outside: Outside, world: WorldBuilder, *, complete: bool = True) -> ServiceAccess:
    host: Any = outside
    others: Any = SimpleNamespace(complete=complete, changed=None, ports_changed=None)
    return ServiceAccess(
        feed=others,
        host_rules=HostRules(
            iptables=host,
            chains=host,
            health=host,
            datagrams=host,
            route_localnet=outside.route_localnet,
        ),
        world=world,
        reconciler=others,
        address=ADDRESS,
        own=(ADDRESS,),
        interval=60.0,
        replace=True,
        board=outside,
        firewall=FirewallWatch(),
    )


@pytest.fixture
def world() -> WorldBuilder:
    """Return a World with a service."""
    world = WorldBuilder(HOST, FwdMode.ROUTING)
    world.put_kube_service(SERVICE)
    return world


async def test_chains_come_before_what_leads_to_them_and_guards_before_loopback(
    world: WorldBuilder,
) -> None:
    outside = Outside()
    await access(outside, world).converge()
    kinds = [kind for kind, _ in outside.told]
    order = ("chains", "rules of IPv4", "rules of IPv6", *3 * ["localnet"], "health", "datagrams")
    assert kinds == [*order]
    switched = [about for kind, about in outside.told if kind == "localnet"]
    assert switched == [("contivh0", True), ("contivv0", True), ("all", False)]
    rules: Collection[IptablesRule] = outside.told[1][1]
    assert set(rules) == {*loopback_guards(), *hooks(4)}
    assert outside.told[-2][1] == [30999]
    assert outside.remembered == ["4 nat CONTIV-SERVICES", "4 nat CONTIV-NODEPORTS"], "once, before"


@pytest.mark.parametrize("broken", [4, 6])
async def test_one_family_that_fails_does_not_stop_the_other(
    world: WorldBuilder, broken: int
) -> None:
    both = replace(SERVICE, addresses=(*SERVICE.addresses, IPv6Address("fd00::1")))
    world.put_kube_service(both)
    outside = Outside()
    outside.failing = {f"rules of IPv{broken}"}
    with pytest.raises(HostError, match=f"^IPv{broken}: rules of IPv{broken} fail$"):
        await access(outside, world).converge()
    done = dict(outside.told)
    assert {"rules of IPv4", "rules of IPv6", "health"} <= done.keys()
    assert ("localnet" in done) is (broken == 6), "not without its guards"


async def test_nothing_is_touched_before_all_services_are_listed(world: WorldBuilder) -> None:
    outside = Outside()
    assert await access(outside, world, complete=False).converge() is None
    assert outside.told == []


def test_targets_of_this_host_are_counted() -> None:
    here = Here(address=ADDRESS, targets=frozenset({ADDRESS}), private=None)
    assert health_checks([SERVICE], here) == {30999: ServiceHealth("shop", "web", 1)}
    (port,) = SERVICE.ports
    ending = replace(SERVICE, ports=(replace(port, draining=port.targets),))
    assert health_checks([ending], here) == {30999: ServiceHealth("shop", "web", 0)}, "nothing new"


def test_there_are_two_ways_beside_kube_proxy() -> None:
    assert [one.value for one in KubeProxy] == ["replace", "coexist"]
