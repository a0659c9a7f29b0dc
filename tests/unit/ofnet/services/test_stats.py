"""What is proxy_state of services: counters of clients, and the proxy's state."""

from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.channel.flow_stats import FlowEntry
from ofnet.services.stats import client_counters, proxy_state
from ofnet.world import Bridge, FwdMode
from tests.unit.ofnet.fake_switch import reply
from tests.unit.ofnet.pipelines.scene import ANN, BOB, FAR, world
from tests.unit.ofnet.serving import VIP, Site, having, of_two_tenants, service

NAMES = {1: "default", 2: "blue"}


def site() -> Site:
    here = Site(Bridge.VXLAN, having(world(FwdMode.ROUTING), service(BOB.ip, FAR.ip)))
    here.asks(ANN)
    return here


def entries(here: Site) -> list[FlowEntry]:
    """Return the switch's report; of table 3 each flow has 3 packets, of table 6 5."""
    flows = [flow for flow in here.desired.flows.values() if flow.owner is ObjectKind.SERVED]
    counts = {
        flow.cookie: (flow.table if flow.table == 3 else 5, 10 * flow.table) for flow in flows
    }
    found, _ = flow_stats.entries(reply(flows, counts))
    return found


def test_a_client_has_counters_by_service_and_provider() -> None:
    clients = client_counters(entries(site()), NAMES)
    assert clients.keys() == {"10.1.0.1"}
    client = clients["10.1.0.1"]
    assert (client["EndpointIP"], client["VrfName"]) == ("10.1.0.1", "default")
    none = {"PacketsIn": 0, "BytesIn": 0, "PacketsOut": 0, "BytesOut": 0}
    assert client["PortStats"] == none
    [of_service] = client["SvcStats"].values()
    assert client["SvcStats"].keys() == {str(VIP)}
    assert of_service["SvcStats"] == none
    assert of_service["ProvStats"] == {
        "10.1.0.2": {
            "ProviderIP": "10.1.0.2",
            "ServiceIP": str(VIP),
            "ServiceVrf": "default",
            "PacketsOut": 6,
            "BytesOut": 60,
            "PacketsIn": 10,
            "BytesIn": 120,
        }
    }, "both ports added up, under the provider"
    assert of_service["SvcPort"] in {"80", "5601"}
    assert of_service["ProvPort"] in {"8080", "9600"}


def test_tenants_with_the_same_addresses_are_distinguished() -> None:
    before, theirs = of_two_tenants()
    services = (service(BOB.ip), service(FAR.ip, key="web:blue", vrf=2))
    here = Site(Bridge.VXLAN, having(before, *services))
    here.asks(ANN)
    here.asks(theirs)
    clients = client_counters(entries(here), NAMES)
    assert clients.keys() == {"10.1.0.1", "10.1.0.1:blue"}
    assert list(clients["10.1.0.1:blue"]["SvcStats"][str(VIP)]["ProvStats"]) == ["10.1.0.4"]


def test_the_state_of_the_proxy() -> None:
    idle = service(key="idle:default")
    here = site()
    here.becomes(having(here.world, service(BOB.ip, FAR.ip), idle))
    ports = [
        {"Protocol": "TCP", "SvcPort": 80, "ProvPort": 8080},
        {"Protocol": "UDP", "SvcPort": 5601, "ProvPort": 9600},
    ]
    assert proxy_state(here.world, {"a": {}}) == {
        "Catalogue": {
            "SvcMap": {
                "idle:default": {"IpAddress": str(VIP), "Ports": ports},
                "web:default": {"IpAddress": str(VIP), "Ports": ports},
            },
            "ProvMap": {
                "idle:default": {"Providers": {}},
                "web:default": {"Providers": {"10.1.0.2": True, "10.1.0.4": True}},
            },
        },
        "OperState": {
            str(VIP): {
                "Ports": ports,
                "ProvHdl": {
                    "10.1.0.2": {"ClientEPs": {"10.1.0.1": True}},
                    "10.1.0.4": {"ClientEPs": {}},
                },
            }
        },
        "EpStats": {"a": {}},
    }


def test_two_services_with_one_address_are_both_shown() -> None:
    both = (service(BOB.ip), service(BOB.ip, key="web:blue", vrf=2))
    assert proxy_state(having(world(FwdMode.ROUTING), *both), {})["OperState"].keys() == {
        str(VIP),
        f"{VIP}:1",
    }
