"""Which NICs may be uplinks: none that carries the host's own traffic."""

import logging
from typing import Any

import pytest

from core.errors import UsageError
from netplugin.bridges.uplink.uplinks import BOND
from netplugin.kernel.links.host_links import Nic
from netplugin.ovsdb import PortSpec
from netplugin.startup.dataplane import uplink_macs
from objdb.memory import MemoryBackend
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Outside


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"addresses": ("192.0.2.5/24",)}, "uplink eth1 has the address 192.0.2.5/24"),
        ({"default_route": True}, "uplink eth1 has the default route"),
    ],
)
async def test_a_card_the_host_lives_on_is_refused_with_a_remedy(
    outside: Outside, caplog: pytest.LogCaptureFixture, held: dict[str, Any], said: str
) -> None:
    outside.links.found["eth1"] = Nic(name="eth1", mac="52:54:00:00:00:01", **held)
    outside.links.found["eth2"] = Nic(name="eth2", mac="52:54:00:00:00:02")
    clients = outside.clients(MemoryBackend())
    cards = ("eth2", "eth1")
    with pytest.raises(UsageError, match=said) as refused:
        await uplink_macs(clients, cards)
    assert "name another card with --vlan-uplinks" in str(refused.value)
    free = await uplink_macs(clients, ("eth2",))
    assert free == {"eth2": "52:54:00:00:00:02"}
    bond = PortSpec(name=BOND, members=("eth1", "eth2"))
    await outside.ovsdb.add_port(Bridge.VLAN, bond)
    with caplog.at_level(logging.WARNING):
        assert (await uplink_macs(clients, cards)).keys() == {"eth2", "eth1"}
    (warned,) = [r for r in caplog.records if r.message == "uplink card is in use by this host"]
    assert warned.port == "eth1"  # type: ignore[attr-defined]
    await clients.store.close()
