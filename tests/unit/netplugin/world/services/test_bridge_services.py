"""Services on both bridges; those of records have tests with `test_servicebook`."""

from ipaddress import IPv4Address

from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, Provider, Service, ServicePort
from tests.unit.netplugin.world.dns_records import service
from tests.unit.netplugin.worlds import altered, built, now, settings


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


def test_the_private_network_of_the_settings_is_no_services(builder: WorldBuilder) -> None:
    private = IPv4Address("172.19.255.254")
    builder.put_kube_service(
        KubeService(
            namespace="shop",
            name="web",
            addresses=(IPv4Address("10.96.0.10"),),
            external_ips=(private,),
            ports=(KubePort(protocol="TCP", port=80),),
        )
    )
    for bridge in Bridge:
        builder.take(bridge)
    builder.put(settings(pvt_subnet="172.19.0.0/16"))
    for bridge in Bridge:
        world, _ = builder.take(bridge)
        assert {one.address for one in world.services.values()} == {IPv4Address("10.96.0.10")}
    assert any(f"not served at {private}" in fault for fault in builder.faults())
