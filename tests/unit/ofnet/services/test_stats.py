"""State and counters of services in the original's shapes."""

from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.services.stats import proxy_state, service_counters
from ofnet.world import FwdMode
from tests.unit.ofnet.fake_switch import reply
from tests.unit.ofnet.pipelines.scene import BOB, FAR, world
from tests.unit.ofnet.serving import VIP, flows_of_services, having, service
from tests.unit.ofnet.worlds import ip_of

SERVICE = service(ip_of(BOB), ip_of(FAR))
WORLD = having(world(FwdMode.ROUTING), SERVICE)


def test_services_and_providers_are_counted() -> None:
    flows = [one for one in flows_of_services(SERVICE) if one.owner is ObjectKind.SERVICE]
    entries, _ = flow_stats.entries(reply(flows, {flow.cookie: (7, 700) for flow in flows}))
    found = service_counters(WORLD, entries, {1: "default"})
    counted = found["default"]["SvcStats"][str(VIP)]
    assert found["default"]["VrfName"] == "default"
    assert (counted["SvcPort"], counted["ProvPort"], counted["Protocol"]) == ("80", "8080", "TCP")
    assert counted["SvcStats"] == {
        "PacketsIn": 14,
        "BytesIn": 1400,
        "PacketsOut": 7,
        "BytesOut": 700,
    }
    assert {name: one["PacketsIn"] for name, one in counted["ProvStats"].items()} == {
        str(BOB.ip): 7,
        str(FAR.ip): 7,
    }


def test_without_flows_nothing_is_counted() -> None:
    assert service_counters(WORLD, [], {1: "default"}) == {}


def test_the_state_has_services_and_providers() -> None:
    state = proxy_state(WORLD, {})
    assert state["Catalogue"]["SvcMap"] == {
        "web:default": {
            "IpAddress": str(VIP),
            "Ports": [{"Protocol": "TCP", "SvcPort": 80, "ProvPort": 8080}],
        }
    }
    assert state["Catalogue"]["ProvMap"]["web:default"]["Providers"] == {
        str(BOB.ip): True,
        str(FAR.ip): True,
    }
    assert state["OperState"][str(VIP)]["ProvHdl"][str(BOB.ip)] == {"ClientEPs": {}}


def test_a_service_without_providers_is_not_active() -> None:
    assert proxy_state(having(world(FwdMode.ROUTING), service()), {})["OperState"] == {}
