"""What tests of dns records share."""

from core.ids import NetworkName, TenantName
from state.records import ServiceRecord

DEFAULT = TenantName("default")


def service(
    name: str = "shop", tenant: TenantName = DEFAULT, ip: str = "10.1.9.1"
) -> ServiceRecord:
    return ServiceRecord(
        tenant=tenant,
        name=name,
        network=NetworkName("n1"),
        ports=("80:8080:TCP",),
        selectors={"app": "shop"},
        ip_address=ip,
    )
