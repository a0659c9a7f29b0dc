"""The record of a host has the addresses of now, without those of the agent's own links."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from core.change_notifier import ChangeNotifier
from core.errors import HostError
from core.ids import HostLabel
from core.retry import begin_loops
from core.tasks import background
from daemons import machine_addresses
from daemons.machine_addresses import MachineAddresses
from netplugin.masters.own_record import OwnRecord
from netplugin.world.bridges import port_names
from state.records import HostRecord
from tests.unit.netplugin.agent import eventually

RECORD = HostRecord(
    label=HostLabel("h1"), control_ip="192.0.2.1", vtep_ip="192.0.2.1", vxlan_port=4789
)
PORTS: Any = {
    # the underlay of a host may be a bridge of Open vSwitch
    "br-ex": SimpleNamespace(external_ids={}),
    "infra": SimpleNamespace(external_ids={port_names.ENDPOINT_ID: "infra.default-h1"}),
}
LINKS = ("eth0", "br-ex", "infra", "contivh0", "contivdns0", "inb01", "vvport7", "kube-ipvs0")


async def test_links_of_the_agent_and_of_services_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(is_left_out: Callable[[str], bool]) -> MachineAddresses:
        return MachineAddresses(tuple(link for link in LINKS if not is_left_out(link)), ("hop",))

    monkeypatch.setattr(machine_addresses, "read", read)
    own = OwnRecord(RECORD, Mock(ports=lambda: PORTS))
    await own.look()
    assert own.current().addresses == ("eth0", "br-ex")
    assert own.current().next_hops == ("hop",)


async def test_each_change_is_looked_at_and_a_failure_keeps_what_was_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[tuple[str, ...] | None] = [("192.0.2.1",)]
    changes = ChangeNotifier()

    def read(_: object) -> MachineAddresses:
        if held[0] is None:
            raise HostError("no")
        return MachineAddresses(held[0])

    monkeypatch.setattr(machine_addresses, "read", read)
    loops, own = begin_loops(), OwnRecord(RECORD, Mock(ports=dict))
    async with background("follow", own.follow(lambda: changes.next, 60)):
        await eventually(lambda: own.current().addresses == ("192.0.2.1",))
        held[0] = ("192.0.2.1", "192.0.2.2")
        changes.notify()
        await eventually(lambda: own.current().addresses == held[0])
        known, held[0] = own.current(), None
        changes.notify()
        fault = "addresses of this host not read: for its record: no"
        await eventually(lambda: loops.faults() == [fault])
        assert own.current() == known
        held[0] = ("192.0.2.3",)
        await eventually(lambda: own.current().addresses == held[0])
        assert loops.faults() == []
