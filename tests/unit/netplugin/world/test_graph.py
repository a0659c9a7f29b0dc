"""A record that cannot be read reaches no part of the graph."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.errors import Invalid
from core.ids import NetworkName, TenantName
from netplugin.world.dns.dns_records import Asker
from state.intents import Fact
from state.records import ServiceRecord
from tests.unit.netplugin.records import NET, PEER, endpoint, host, key, network
from tests.unit.netplugin.worlds import altered, built, drain

SERVICE = ServiceRecord(
    tenant=TenantName("default"),
    name="web",
    network=NetworkName("n1"),
    ports=("80:8080:TCP",),
    selectors={"app": "web"},
    ip_address="10.1.9.1",
)


@pytest.mark.parametrize(
    "unreadable",
    [
        network(gateway="x"),
        replace(endpoint(host=PEER), ip_address="10.1.0.x"),
        replace(
            host(vtep_ip="nowhere"), uplink_macs=("52:54:00:00:00:01",), control_ip="192.0.2.9"
        ),
        replace(SERVICE, ports=("80",)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_cannot_be_read_reaches_no_part(unreadable: Fact) -> None:
    builder = built()
    drain(builder)
    with pytest.raises(Invalid):
        builder.put(unreadable)
    assert not altered(builder)
    assert builder.networks.get(NET) is None
    assert builder.endpoint_records.get(key("c1")) is None
    assert builder.peers.record(PEER) is None
    assert not builder.management.known.addresses
    assert not builder.underlay.kept
    assert builder.names.lookup(Asker(TenantName("default")), "web", IPv4Address) is None
