"""JSON Schema of the models."""

import jsonschema
import pytest

from contivmodel import rpc
from contivmodel.objects import EndpointGroup, Network, Tenant
from contivmodel.schema import schemas
from contivmodel.wire import WireModel, dump


def checked(model: type[WireModel]) -> jsonschema.Draft202012Validator:
    """Return what checks data against a model's schema."""
    found = schemas([model])
    return jsonschema.Draft202012Validator(
        {
            "$ref": f"#/components/schemas/{model.go_name or model.__name__}",
            "components": {"schemas": found},
        }
    )


def test_nested_models_are_there_once() -> None:
    assert set(schemas([Tenant, Network])) == {
        "Link",
        "Network",
        "NetworkLinkSets",
        "NetworkLinks",
        "Tenant",
        "TenantLinkSets",
    }


def test_the_original_names_the_types() -> None:
    assert set(schemas([rpc.AllocAddressRequest])) == {"AddressAllocRequest"}


def test_what_is_written_fits() -> None:
    network = Network(
        key="t:n", encap="vlan", network_name="n", nw_type="data", subnet="10.1.1.0/24",
        tenant_name="t", pkt_tag=5,
    )  # fmt: skip
    checked(Network).validate(dump(network))


@pytest.mark.parametrize(
    "change",
    [
        {"encap": "gre"},
        {"encap": None},
        {"networkName": "a_b"},
        {"networkName": "n" * 65},
        {"pktTag": 16_777_217},
        {"pktTag": "5"},
        {"links": {"Tenant": 5}},
    ],
)
def test_what_would_be_refused_does_not_fit(change: dict[str, object]) -> None:
    body = {"encap": "vlan", "networkName": "n", "subnet": "10.1.1.0/24", "tenantName": "t"}
    checker = checked(Network)
    assert checker.is_valid(body)
    changed = {name: value for name, value in (body | change).items() if value is not None}
    assert not checker.is_valid(changed)


def test_a_network_has_a_subnet_of_either_family() -> None:
    six = {"encap": "vlan", "networkName": "n", "ipv6Subnet": "fd00::/64", "tenantName": "t"}
    assert checked(Network).is_valid(six)
    assert "needs `subnet` or `ipv6Subnet`" in schemas([Network])["Network"]["description"]


def test_a_rule_with_a_default_requires_nothing() -> None:
    network = schemas([Network])["Network"]
    assert network["required"] == ["encap", "networkName", "tenantName"]
    assert network["properties"]["nwType"]["default"] == "data"
    assert schemas([EndpointGroup])["EndpointGroup"]["properties"]["policies"] == {
        "type": "array",
        "items": {"type": "string"},
    }
