"""What a host tests by itself."""

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any

from core.errors import HostError, SwitchUnavailable
from core.ids import HostLabel, NetworkId
from core.tasks import background
from daemons.health import Check
from netplugin.bridges.vxlan.path_mtu import SHORT, VXLAN_OVERHEAD, Probe
from netplugin.diagnostics.selftest import HostSelfTest
from netplugin.world.peers import Address
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.diff import FlowStamp
from ofnet.flows import cookie_of_kind
from ofnet.packets.dns_answers import Question
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, Network, Vtep, World
from tests.unit.ofnet.fake_switch import FakeSwitch

PEERS = {HostLabel(f"h{number}"): IPv4Address(f"192.0.2.{number}") for number in range(2, 7)}
SIZE = 1500


async def probe(target: Address, size: int) -> bool:
    """h2 answers, h3 only short packets, h4 none; h6 cannot be sent to."""
    match str(target):
        case "192.0.2.2":
            return True
        case "192.0.2.3":
            return size == SHORT
        case "192.0.2.6":
            raise HostError("no raw socket")
        case _:
            return False


async def fine() -> None:
    """Pass."""


async def broken() -> None:
    raise HostError("away")


READY: Mapping[str, Check] = {"store": fine}


class Names:
    """A name server that knows two names, and gives the right answer for one of them."""

    def report(self) -> dict[str, Any]:
        names = {"right": ["ipv4:10.1.1.2 ipv6:<nil>"], "wrong": ["ipv4:10.1.1.3 ipv6:<nil>"]}
        names["several"] = ["ipv4:10.1.1.4 ipv6:<nil>"] * 2
        names["x" * 64] = ["ipv4:10.1.1.5 ipv6:<nil>"]
        services = {"only6": ["ipv4:<nil> ipv6:fd00::1"]}
        unknown = {"commonNames": {"elsewhere": ["ipv4:10.9.9.9 ipv6:<nil>"]}}
        return {
            "dnsRecords": {"default": {"commonNames": names, "services": services}, "red": unknown}
        }

    def resolve(self, question: Question) -> bytes:
        assert question.network == "n1.default"
        return IPv4Address("10.1.1.2").packed


class Others:
    """The other hosts, to which probes found no fault."""

    faults: Mapping[HostLabel, str] = {}

    def tunnel_ends(self) -> Mapping[HostLabel, IPv4Address]:
        return PEERS

    def tenant_of(self, nid: NetworkId) -> str:
        return nid.rpartition(".")[2]

    def of(self, _bridge: Bridge) -> int:
        return SIZE - VXLAN_OVERHEAD[4]


NETWORK = Network(id=NetworkId("n1.default"), vrf=1, vlan=1, vni=1)
WORLD = World(
    fwd_mode=FwdMode.ROUTING,
    vteps={
        host: Vtep(host=host, ip=address, ofport=number)
        for number, (host, address) in enumerate(PEERS.items(), 1)
        if host != "h5"
    },
    networks={NETWORK.id: NETWORK},
)


def host(
    *, ready: Mapping[str, Check] = READY, probed: Probe = probe, seconds: float = 5.0
) -> tuple[HostSelfTest, dict[Bridge, FakeSwitch]]:
    """Return the self-test of a host whose switches have all flows."""
    switches = {bridge: FakeSwitch() for bridge in Bridge}
    agents = {bridge: BridgeAgent(switches[bridge], bridge, WORLD) for bridge in Bridge}
    for bridge, switch in switches.items():
        switch.table.update(agents[bridge].desired.flows)
    names: Any = Names()
    others: Any = Others()
    made = HostSelfTest(
        ready=ready,
        agents=agents,
        names=names,
        endpoints=others,
        peers=others,
        sizes=others,
        probe=probed,
        tunnels=others,
        seconds=seconds,
        settle=0.0,
    )
    return made, switches


async def test_every_other_host_is_asked_by_short_and_long_packets() -> None:
    made, _ = host()
    assert (await made.run())["tunnels"] == {
        "passed": 1,
        "failed": {
            "h3": "packets of 1500 bytes do not pass to 192.0.2.3, short ones do",
            "h4": "192.0.2.4 answers no echo request",
            "h5": "no tunnel port to 192.0.2.5",
            "h6": "no raw socket",
        },
    }


async def test_flows_that_the_switch_lacks_are_failures() -> None:
    made, switches = host()
    well = {"passed": 2, "failed": {}}
    assert (await made.run())["flows"] == well
    switches[Bridge.VLAN].table.popitem()
    assert (await made.run())["flows"] == {
        "passed": 1,
        "failed": {"contivVlanBridge": "1 flows are missing, 0 are not wanted"},
    }
    switches[Bridge.VXLAN].failures.append(SwitchUnavailable("no switch"))
    found = await made.run()
    assert "no switch" in {
        *found["flows"]["failed"].values(),
        *found["services"]["failed"].values(),
    }


async def test_a_change_on_its_way_is_no_fault() -> None:
    made, switches = host()
    switch = switches[Bridge.VXLAN]
    whole = dict(switch.table)
    switch.table.popitem()
    before = switch.dumps
    async with background("test", made.run()) as running:
        # both checks have compared
        while switch.dumps < before + 2:  # noqa: ASYNC110 - a switch in memory has no event for it
            await asyncio.sleep(0)
        switch.table.update(whole)
        found = await running
    assert found["flows"] == {"passed": 2, "failed": {}}
    assert found["services"]["failed"] == {}


async def test_flows_of_services_are_told_apart() -> None:
    made, switches = host()
    switch = switches[Bridge.VXLAN]
    switch.foreign.append(FlowStamp(TableId.SRV_PROXY_DNAT, cookie_of_kind(ObjectKind.SERVICE) | 1))
    assert (await made.run())["services"] == {
        "passed": 0,
        "failed": {"contivVxlanBridge": "0 flows are missing, 1 are not wanted"},
    }


async def test_names_are_asked_for_as_pods_do() -> None:
    made, _ = host()
    assert (await made.run())["names"] == {
        "passed": 1,
        "failed": {"wrong": "the name service does not answer 10.1.1.3"},
    }


async def test_what_an_add_needs_is_tested() -> None:
    made, _ = host(ready={"store": fine, "netmaster": broken})
    assert (await made.run())["ready"] == {"passed": 1, "failed": {"netmaster": "away"}}


async def test_a_test_ends_in_time() -> None:
    async def hangs(_target: Address, _size: int) -> bool:
        await asyncio.Event().wait()
        return False

    made, _ = host(probed=hangs, seconds=1)
    found = await made.run()
    assert found["tunnels"]["failed"]["time"] == "not finished within 1 s"
    assert found["flows"]["passed"] == 2
