"""The providers of a service."""

import pytest

from core.ids import EndpointKey, HostLabel, NetworkId, NetworkName, TenantName
from state import service_providers
from state.records import EndpointRecord, ServiceRecord
from state.service_providers import Candidate

SERVICE = ServiceRecord(
    tenant=TenantName("blue"),
    name="web",
    network=NetworkName("n1"),
    ports=("80:8080:TCP",),
    selectors={"app": "web", "tier": ""},
    ip_address="10.1.1.1",
)


def candidate(
    labels: dict[str, str] | None, *, container: str = "id", tenant: str = "blue", number: int = 2
) -> Candidate:
    endpoint = EndpointRecord(
        key=EndpointKey(f"n1.{tenant}-c{number}"),
        network=NetworkId(f"n1.{tenant}"),
        endpoint_id=f"c{number}",
        service_name="",
        group_id=0,
        group_key="",
        ip_address=f"10.1.1.{number}",
        ipv6_address="",
        mac_address="",
        homing_host=HostLabel("h1"),
        intf_name="",
        vtep_ip="",
        labels=labels,
        container_id=container,
        common_name="",
    )
    return Candidate(endpoint, NetworkName("n1"), TenantName(tenant))


@pytest.mark.parametrize(
    ("labels", "container", "tenant", "serves"),
    [
        ({"app": "web", "tier": ""}, "id", "blue", True),
        ({"app": "web", "tier": "", "more": "x"}, "id", "blue", True),
        ({"app": "web"}, "id", "blue", False),  # no label is not an empty label
        ({"app": "db", "tier": ""}, "id", "blue", False),
        ({}, "id", "blue", False),
        (None, "id", "blue", False),
        ({"app": "web", "tier": ""}, "", "blue", False),
        ({"app": "web", "tier": ""}, "id", "red", False),
    ],
)
def test_who_serves(
    labels: dict[str, str] | None, container: str, tenant: str, *, serves: bool
) -> None:
    one = candidate(labels, container=container, tenant=tenant)
    assert service_providers.provides(one.endpoint, one.tenant, SERVICE) is serves
    assert service_providers.services_of(one, [SERVICE]) == (["web:blue"] if serves else [])


def test_providers_are_in_order_whoever_came_first() -> None:
    labels = {"app": "web", "tier": ""}
    all_of = [candidate(labels, number=number) for number in (9, 3, 5)]
    found = service_providers.providers(SERVICE, all_of)
    assert [one.provider_id for one in found] == [
        "10.1.1.3:blue",
        "10.1.1.5:blue",
        "10.1.1.9:blue",
    ]
    assert service_providers.provider_fields(found[0], ["web:blue"])["EpIDKey"] == "n1.blue-c3"  # type: ignore[list-item]
