"""What the leader stores, to bytes and back."""

import json

import pytest

from contivmodel.objects import Link, Network, NetworkLinks
from core import keys
from core.errors import Invalid
from core.ids import GroupName, NetworkName, TenantName
from netmaster import codec
from netmaster.stored import GroupIdCursor, KeptAnswer, PendingDockerNetwork, Stored
from state.records import GrantOwner, GrantRecord

NETWORK = Network(
    key="default:n1",
    encap="vlan",
    network_name="n1",
    nw_type="data",
    pkt_tag=7,
    subnet="10.1.1.0/24",
    tenant_name="default",
    links=NetworkLinks(tenant=Link(type="tenant", key="default")),
)


ANSWER = KeptAnswer(digest="d1", request="r", status=201, key="k", etag="e", body="{}", at=1.5)
DOUBT = PendingDockerNetwork(TenantName("blue"), NetworkName("n1"), GroupName("web"))


def test_an_object_is_stored_as_the_original_does() -> None:
    assert json.loads(codec.encode(NETWORK)) == {
        "key": "default:n1",
        "encap": "vlan",
        "networkName": "n1",
        "nwType": "data",
        "pktTag": 7,
        "subnet": "10.1.1.0/24",
        "tenantName": "default",
        "link-sets": {},
        "links": {"Tenant": {"type": "tenant", "key": "default"}},
    }


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        (keys.obj("network", "default:n1"), NETWORK),
        (keys.GROUP_ID_CURSOR, GroupIdCursor(last=7)),
        (DOUBT.key, DOUBT),
        (keys.answer("d1"), ANSWER),
        (keys.VLAN_RESOURCE, b"any"),
        (
            keys.GRANTS + "n1.default/10.1.1.1",
            GrantRecord(owner=GrantOwner.GATEWAY, owner_id="n1.default", seq=3),
        ),
    ],
)
def test_what_is_stored_is_read_back(key: str, stored: Stored) -> None:
    assert codec.is_leaders(key)
    assert codec.decode(key, codec.encode(stored)) == stored


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.obj("network", "default:n1"), b"{"),
        (keys.obj("network", "default:n1"), b'{"tenantName":"default","networkName":"n2"}'),
        (keys.obj("rule", "default:p:1"), b"{}"),
        (keys.OBJECTS + "network", b"{}"),
        (DOUBT.key, b'{"tenant": "blue", "network": "n1", "group": null}'),
        (keys.GROUP_ID_CURSOR, b"{}"),
        (keys.GROUP_ID_CURSOR, b"7"),
        (keys.GROUP_ID_CURSOR, b"x"),
        (keys.GROUP_ID_CURSOR, b'{"last": "7"}'),
        (keys.NETWORKS + "n1.default", b"[]"),
        (keys.ROOT + "state/unheard-of/x", b"{}"),
    ],
)
def test_what_cannot_be_read_names_its_key(key: str, value: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        codec.decode(key, value)
    assert key in str(caught.value)


@pytest.mark.parametrize(
    "key", [keys.LEADER_LOCK, keys.commit("w"), keys.HOSTS + "h1", keys.ROOT + "oper/h1/flows"]
)
def test_what_others_write_is_not_the_leaders(key: str) -> None:
    assert not codec.is_leaders(key)
