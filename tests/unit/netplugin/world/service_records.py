"""What tests of service records share."""

from dataclasses import replace

from core.ids import NetworkName, TenantName
from state.records import EndpointRecord, ServiceRecord
from tests.unit.netplugin.records import PEER, endpoint

LABELS = {"app": "web"}


def record(*ports: str, tenant: str = "default", name: str = "web") -> ServiceRecord:
    return ServiceRecord(
        tenant=TenantName(tenant),
        name=name,
        network=NetworkName("n1"),
        ports=ports or ("80:8080:TCP", "53:5353:udp"),
        selectors=LABELS,
        ip_address="10.1.0.200",
    )


def provider(number: int, **more: object) -> EndpointRecord:
    made = endpoint(number, host=PEER)
    fields: dict[str, object] = {"labels": {**LABELS, "x": "y"}, "container_id": made.endpoint_id}
    return replace(made, **{**fields, **more})  # type: ignore[arg-type] # fields of the record
