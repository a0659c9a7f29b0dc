"""What tests of kube names share."""

from ipaddress import ip_address

from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget

WEB = KubeService(
    namespace="shop",
    name="web",
    addresses=(ip_address("10.96.0.10"), ip_address("fd00::10")),
    ports=(
        KubePort(name="http", protocol="TCP", port=80),
        KubePort(protocol="UDP", port=53),
    ),
)


OUTSIDE = KubeService(namespace="shop", name="pay", external_name="Pay.example.com.")


def member(address: str, hostname: str = "", port: int = 0) -> KubeTarget:
    return KubeTarget(address=ip_address(address), port=port, hostname=hostname)


ONE, TWO, SIX = member("10.1.0.1", "Db-0"), member("10.1.0.2"), member("2001:db8::1", "db-0")


DB = KubeService(
    namespace="shop",
    name="db",
    headless=True,
    ports=(
        KubePort(
            name="sql",
            protocol="TCP",
            port=5432,
            targets=frozenset({member("10.1.0.1", "Db-0", 15432), member("10.1.0.2", "", 15432)}),
        ),
    ),
    members=frozenset({ONE, TWO, SIX}),
)
