"""Services on both bridges; those of records have tests with `test_servicebook`."""

from ipaddress import IPv4Address

from netplugin.world.builder import WorldBuilder
from netplugin.world.kube_services import KubePort, KubeService, KubeTarget
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, Provider, Service, ServicePort
from tests.unit.netplugin.world.dns_records import service
from tests.unit.netplugin.worlds import altered, built, now


def test_both_bridges_serve_services_of_kubernetes(builder: WorldBuilder) -> None:
    target = frozenset({KubeTarget(address=IPv4Address("10.1.0.1"), port=8080)})
    served = KubeService(
        namespace="shop",
        name="web",
        addresses=(IPv4Address("10.96.0.10"),),
        ports=(KubePort(protocol="TCP", port=80, targets=target),),
    )
    for bridge in Bridge:
        builder.take(bridge)
    builder.put_kube_service(served)
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert world.services == {
            "shop/web": Service(
                key="shop/web",
                vrf=0,
                address=IPv4Address("10.96.0.10"),
                ports=(ServicePort(6, 80, frozenset({Provider(IPv4Address("10.1.0.1"), 8080)})),),
            )
        }
        assert changes.names(ObjectKind.SERVICE) == {"shop/web"}
    builder.put_kube_service(served)
    assert not altered(builder)
    builder.remove_kube_service("shop/web")
    for bridge in Bridge:
        world, changes = builder.take(bridge)
        assert not world.services
        assert changes.names(ObjectKind.SERVICE) == {"shop/web"}


def test_services_of_a_tenant_without_networks_go_once_all_is_known() -> None:
    builder = built(default=9)
    builder.put(service())
    assert [one.vrf for one in now(builder).services.values()] == [9]
    builder.set_complete()
    assert not now(builder).services
