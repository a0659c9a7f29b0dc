"""`state.codec` against recorded stores, and against invalid values."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from core import keys
from core.errors import Invalid
from core.ids import (
    DocknetId,
    GroupName,
    NetworkName,
    TenantName,
)
from state import codec
from state.records import (
    BgpRecord,
    DocknetRecord,
    Encap,
    GrantOwner,
    GrantRecord,
    GroupRecord,
    Record,
    ServiceInstance,
    TagRangesRecord,
)
from tests.unit.state.codec import ENDPOINT, HOST, NETWORK

STORES = Path(__file__).parents[2] / "golden" / "store"
COUNTED = {
    "epAddrCount",
    "epCount",
    "epgIpAllocMap",
    "ipAllocMap",
    "ipv6AllocMap",
    "ipv6LastHost",
    "providers",
}
"""What the original rewrites with every address and every container."""

RESOURCES = {
    keys.VLAN_RESOURCE,
    keys.VLAN_RESOURCE_OPER,
    keys.VXLAN_RESOURCE,
    keys.VXLAN_RESOURCE_OPER,
    keys.GLOBAL_OPER,
}

BGP = BgpRecord(
    hostname="h1",
    router_ip="50.1.1.1/24",
    as_number="65002",
    neighbor_as="65000",
    neighbor="",
    router_ipv6="fd50::1/64",
    neighbor_ipv6="fd50::2",
)
GROUP = GroupRecord(
    tenant=TenantName("blue"),
    name=GroupName("web"),
    network=NetworkName("net.1"),
    group_id=7,
    encap=Encap.VXLAN,
    pkt_tag=3,
    ext_pkt_tag=1000,
    dscp=10,
    bandwidth="10 mbps",
    burst=1500,
    ip_pool="10.1.0.5-10.1.0.9",
    group_tag="web.blue",
    subnet_len=16,
)
GRANT = GrantRecord(owner=GrantOwner.ENDPOINT, owner_id="net.1.blue-a/b", seq=9, granted_at=1.5)
DOCKNET = DocknetRecord(
    tenant=TenantName("blue"), network=NetworkName("net.1"), group=GroupName("web"), uuid="f00"
)


def store(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((STORES / name).read_text())["keys"]
    return {key: value for key, value in recorded.items() if value is not None}


def again(key: str, value: Any) -> Any:
    """Decode a recorded value and encode it again; None where no record is kept."""
    record = codec.decode(key, json.dumps(value).encode())
    return None if record is None else json.loads(codec.encode(record))


@pytest.mark.parametrize("path", sorted(STORES.iterdir()), ids=lambda path: path.stem)
def test_records_are_the_originals_but_for_what_is_counted(path: Path) -> None:
    compared = 0
    for key, value in store(path.name).items():
        ours = again(key, value)
        if ours is not None:
            assert ours.keys() == value.keys()
            assert {k: v for k, v in ours.items() if k not in COUNTED} == {
                k: v for k, v in value.items() if k not in COUNTED
            }
            compared += 1
    assert compared >= 2


@pytest.mark.parametrize(
    "name", [p.name for p in sorted(STORES.iterdir()) if p.name.startswith("net")]
)
def test_fresh_records_equal_the_originals_to_the_last_bit(name: str) -> None:
    fresh = {
        key: value
        for key, value in store(name).items()
        if codec.decoder_of(key) and not value.get("epCount") and not value.get("epAddrCount")
    }
    assert len(fresh) >= 3
    for key, value in fresh.items():
        assert again(key, value) == value


def test_a_fresh_groups_pool_is_clear_in_its_map() -> None:
    key = keys.GROUPS + "gp:default"
    recorded = store("plugin-v6-after-delete.json")[key]
    assert again(key, recorded) == recorded


def test_tag_resources_are_the_originals_while_nothing_is_in_use() -> None:
    recorded = store("networks-one-vxlan.json")
    ours = {
        key: json.loads(value)
        for key, value in codec.tag_resources(
            TagRangesRecord(vlans="1-4094", vxlans="1-10000")
        ).items()
    }
    assert ours.keys() == RESOURCES
    for key in RESOURCES - {keys.VXLAN_RESOURCE_OPER}:
        assert ours[key] == recorded[key]
    assert ours[keys.VXLAN_RESOURCE_OPER]["freeVXLANs"] == ours[keys.VXLAN_RESOURCE]["vxlans"]


def test_vxlan_resource_counts_from_the_start_of_its_range() -> None:
    ours = codec.tag_resources(TagRangesRecord(vlans="10-20", vxlans="5001-5010"))
    value = json.loads(ours[keys.VXLAN_RESOURCE])
    plain = codec.tag_resources(TagRangesRecord(vlans="10-20", vxlans="1-10"))
    assert value["FreeVXLANsStart"] == 5000
    assert value["vxlans"] == json.loads(plain[keys.VXLAN_RESOURCE])["vxlans"]


@pytest.mark.parametrize("ranges", ["", "a-b", "5", "1-2-3"])
def test_unreadable_tag_ranges_are_invalid(ranges: str) -> None:
    with pytest.raises(Invalid, match="invalid tags"):
        codec.tag_resources(TagRangesRecord(vlans="1-2", vxlans=ranges))


@pytest.mark.parametrize(
    ("key", "record"),
    [
        (keys.network(NETWORK.id), NETWORK),
        (
            keys.network(NETWORK.id),
            dataclasses.replace(NETWORK, first="10.1.0.77", bounded=True),
        ),
        (keys.network(NETWORK.id), dataclasses.replace(NETWORK, first="10.1.0.77")),
        (
            keys.network(NETWORK.id),
            dataclasses.replace(NETWORK, first="10.1.0.7", last="10.1.0.9", bounded=True),
        ),
        (
            keys.network(NETWORK.id),
            dataclasses.replace(
                NETWORK,
                subnet="10.0.0.0",
                subnet_len=8,
                first="10.200.0.1",
                last="10.255.255.255",
                bounded=True,
            ),
        ),
        (keys.group(GROUP.key), GROUP),
        (keys.group(GROUP.key), dataclasses.replace(GROUP, ip_pool="", subnet_len=0)),
        (keys.endpoint(ENDPOINT.key), ENDPOINT),
        (keys.endpoint(ENDPOINT.key), dataclasses.replace(ENDPOINT, labels=None)),
        (keys.docknet(DOCKNET.id), DOCKNET),
        (
            keys.docknet(DocknetId("blue.net.1.")),
            dataclasses.replace(DOCKNET, group=None),
        ),
        (keys.grant(NETWORK.id, "10.1.0.5"), GRANT),
        (keys.host(HOST.label), HOST),
        (keys.TAG_RANGES, TagRangesRecord(vlans="1-10", vxlans="20-30")),
        (keys.bgp(BGP.hostname), BGP),
    ],
)
def test_decode_undoes_encode(key: str, record: Record) -> None:
    assert codec.decode(key, codec.encode(record)) == record


def test_an_endpoints_equal_names_are_one_text() -> None:
    """A leader holds a hundred thousand of them, of 64 characters each."""
    one = "0123456789abcdef" * 4
    written = dataclasses.replace(ENDPOINT, endpoint_id=one, container_id=one, common_name=one)
    read = codec.decode_endpoint(keys.endpoint(ENDPOINT.key), codec.encode(written))
    assert read == written
    assert read.container_id is read.common_name is read.endpoint_id


def test_a_bgp_record_has_ipv6_where_there_is_some() -> None:
    written = json.loads(codec.encode(BGP))
    original = dataclasses.replace(BGP, router_ipv6="", neighbor_ipv6="")
    assert written.keys() - json.loads(codec.encode(original)).keys() == {
        "router-ipv6",
        "neighbor-ipv6",
    }


def test_docknets_have_the_originals_names() -> None:
    assert json.loads(codec.encode(DOCKNET)) == {
        "id": "blue.net.1.web",
        "tenantName": "blue",
        "networkName": "net.1",
        "serviceName": "web",
        "docknetUUID": "f00",
    }


def test_service_info_has_gos_names() -> None:
    instance = ServiceInstance(service="netmaster", address="10.77.0.1", port=9999, role="leader")
    value = codec.encode(instance)
    assert json.loads(value) == {
        "ServiceName": "netmaster",
        "Role": "leader",
        "Version": "",
        "TTL": 10,
        "HostAddr": "10.77.0.1",
        "Port": 9999,
        "Hostname": "",
    }
    assert codec.decode_service(keys.service("netmaster", "10.77.0.1", 9999), value) == instance


def test_a_map_too_large_for_the_store_is_cut() -> None:
    wide = dataclasses.replace(NETWORK, subnet="10.0.0.0", subnet_len=8, last="10.255.255.255")
    assert len(codec.encode(wide)) < 200_000


def test_unknown_fields_and_missing_ones_are_let_through() -> None:
    fields = json.loads(codec.encode(GROUP))
    del fields["IPPool"], fields["epgIpAllocMap"], fields["groupTag"]
    fields["new"] = {"a": 1}
    decoded = codec.decode(keys.group(GROUP.key), json.dumps(fields).encode())
    assert decoded == dataclasses.replace(GROUP, ip_pool="", group_tag="", subnet_len=0)


def test_keys_without_records_decode_to_none() -> None:
    assert codec.decode(keys.VLAN_RESOURCE, b"{}") is None
    assert codec.decode(keys.GLOBAL_CONFIG + "/x", b"{}") is None


@pytest.mark.parametrize(
    ("key", "record", "field", "value"),
    [
        (keys.endpoint(ENDPOINT.key), ENDPOINT, "endpointGroupId", "7"),
        (keys.endpoint(ENDPOINT.key), ENDPOINT, "endpointGroupId", True),
        (keys.endpoint(ENDPOINT.key), ENDPOINT, "ipAddress", 4),
        (keys.endpoint(ENDPOINT.key), ENDPOINT, "labels", ["a"]),
        (keys.endpoint(ENDPOINT.key), ENDPOINT, "labels", {"a": 1}),
        (keys.endpoint(ENDPOINT.key), ENDPOINT, "id", "other"),
        (keys.docknet(DOCKNET.id), DOCKNET, "serviceName", "other"),
        (keys.network(NETWORK.id), NETWORK, "pktTagType", "gre"),
        (keys.network(NETWORK.id), NETWORK, "tenant", "red"),
        (keys.network(NETWORK.id), NETWORK, "subnetIP", "ten"),
        (keys.network(NETWORK.id), NETWORK, "subnetLen", 64),
        (keys.group(GROUP.key), GROUP, "groupName", "other"),
        (keys.group(GROUP.key), GROUP, "epgIpAllocMap", "A"),
        (keys.grant(NETWORK.id, "10.1.0.5"), GRANT, "grantedAt", "now"),
        (keys.grant(NETWORK.id, "10.1.0.5"), GRANT, "owner", "nobody"),
        (keys.host(HOST.label), HOST, "uplinkMACs", [1]),
        (keys.TAG_RANGES, TagRangesRecord(vlans="1-2", vxlans="1-2"), "auto", 1),
    ],
)
def test_wrong_types_are_invalid_and_named(
    key: str, record: Record, field: str, value: object
) -> None:
    fields = json.loads(codec.encode(record)) | {field: value}
    with pytest.raises(Invalid) as caught:
        codec.decode(key, json.dumps(fields).encode())
    assert key in str(caught.value)


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_object_is_invalid(value: bytes) -> None:
    with pytest.raises(Invalid, match="eps/x"):
        codec.decode(keys.ENDPOINTS + "x", value)
