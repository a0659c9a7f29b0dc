"""Chains of the agent's own in the real iptables: replaced as a whole, and removed."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest

from core.errors import HostError
from core.ids import EndpointKey
from netplugin.bridges.services import service_access
from netplugin.bridges.services.service_rules import Here, rules
from netplugin.cni.port_mappings import PROTOCOLS, PortMapping
from netplugin.kernel.firewall.iptables import Iptables
from netplugin.kernel.firewall.iptables_chains import OwnChains
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.pods.host_port_mappings.mapping_rules import MappedPod
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from tests.bed.netns import Namespace

pytestmark = pytest.mark.ovs

HERE = Here(
    address=IPv4Address("192.168.77.1"),
    targets=frozenset({IPv4Address("10.1.0.1")}),
    private=IPv4Network("172.19.0.0/16"),
)


def service(number: int, count: int = 3) -> KubeService:
    """Return a service of both families with everything that makes rules."""
    found = [
        KubeTarget(address=base + one, port=8080)
        for base in (IPv4Address("10.1.0.0"), IPv6Address("fd00::"))
        for one in range(1, count + 1)
    ]
    ports = tuple(
        KubePort(
            name=name,
            protocol=name.upper(),
            port=80,
            node_port=30000 + number,
            targets=frozenset(found),
        )
        for name in ("tcp", "udp", "sctp")
    )
    return KubeService(
        namespace="shop",
        name=f"s{number}",
        addresses=(IPv4Address("10.96.0.0") + number, IPv6Address("fd96::") + number),
        external_ips=(IPv4Address("203.0.113.0") + number,),
        affinity_seconds=60 if number % 2 else 0,
        external_local=number % 3 == 0,
        internal_local=number % 5 == 0,
        ports=ports,
    )


def saved(host: Namespace, program: str) -> str:
    listed = [host.run([program, "-w", "-t", table, "-S"]).stdout for table in ("nat", "filter")]
    return "\n".join(listed)


@pytest.mark.parametrize("version", [4, 6])
async def test_chains_are_replaced_as_a_whole_and_removed(host: Namespace, version: int) -> None:
    program = {4: "iptables", 6: "ip6tables"}[version]
    host.run([program, "-w", "-t", "nat", "-N", "KUBE-SERVICES"])
    before = saved(host, program)
    own = OwnChains()
    hooks = Iptables([c for c in service_access.CHAINS if c.program == program])
    for count in (15, 2, 0):
        made = rules([service(number) for number in range(1, count + 1)], version, HERE)
        await own.replace(version, {"nat": made.nat, "filter": made.filter})
        await hooks.keep(service_access.hooks(version))
        shown = saved(host, program)
        assert {line.split()[1] for line in shown.splitlines() if "-N CONTIV-" in line} == {
            *made.nat,
            *made.filter,
        }
    assert len(await own.found(service_access.TABLES)) == 4, "the fixed ones"
    assert not await hooks.keep(service_access.hooks(version)), "they are there already"
    await service_access.withdraw(hooks, own)
    assert saved(host, program) == before


async def test_a_refusal_changes_nothing(host: Namespace) -> None:
    own = OwnChains()
    made = rules([service(1)], 4, HERE)
    await own.replace(4, {"nat": made.nat, "filter": made.filter})
    before = saved(host, "iptables")
    broken = {**made.nat, "CONTIV-SERVICES": ["-j NOWHERE"]}
    with pytest.raises(HostError, match="iptables-restore"):
        await own.replace(4, {"nat": broken})
    assert saved(host, "iptables") == before


async def test_loopback_addresses_are_guarded(host: Namespace) -> None:
    hooks = Iptables(service_access.CHAINS)
    await hooks.keep(service_access.loopback_guards())
    shown = host.run(["iptables", "-w", "-t", "raw", "-S", "PREROUTING"]).stdout
    assert [shown.count(f"{end} 127.0.0.0/8 ! -i lo ") for end in ("-d", "-s")] == [1, 1]
    assert not await hooks.keep(service_access.loopback_guards())
    assert await hooks.keep(())


@pytest.mark.usefixtures("host")
async def test_host_ports_and_services_leave_each_other_alone() -> None:
    services, ports = OwnChains(), OwnChains(mapping_rules.PREFIX)
    made = rules([service(1)], 4, HERE)
    await services.replace(4, {"nat": made.nat, "filter": made.filter})
    mappings = [
        PortMapping(protocol=protocol, host_port=number, container_port=80, host_ip=host_ip)
        for protocol in PROTOCOLS
        for number, host_ip in ((8080, ""), (8081, "192.168.77.1"), (8081, "2001:db8::1"))
    ]
    addresses = (IPv4Address("10.1.0.1"), IPv6Address("fd00::1"))
    pod = MappedPod(key=EndpointKey("n1.t-c1"), addresses=addresses, mappings=tuple(mappings))
    hooks = Iptables(mapping_rules.CHAINS)
    found: dict[int, list[str]] = {}
    for version in (4, 6):
        chains = mapping_rules.chains(version, [pod], HERE.address)
        await ports.replace(version, {"nat": chains})
        found[version] = await ports.rules(version, "nat", mapping_rules.PORTS)
        for name, lines in chains.items():
            assert await ports.rules(version, "nat", name) == lines, "as iptables prints them"
    assert list(mapping_rules.missing(pod, found)) == []
    wanted = [rule for version in (4, 6) for rule in mapping_rules.hooks(version)]
    assert await hooks.keep(wanted)
    assert not await hooks.keep(wanted)
    assert sorted(await hooks.found()) == sorted(map(str, wanted)), "as a CHECK compares them"
    await services.replace(4, {"nat": {}, "filter": {}})
    assert await services.found(service_access.TABLES) == []
    assert len(await ports.found(mapping_rules.TABLES)) == 4
    await hooks.keep(())
    await ports.remove(mapping_rules.TABLES)
    assert await ports.found(mapping_rules.TABLES) == []
    assert await ports.rules(4, "nat", mapping_rules.PORTS) == []
