"""Objects of API v2: read strictly, with all faults at once; patched; shown whole."""

import json
from typing import Any

import pytest

from contivmodel.objects import Netprofile, Network, Tenant
from contivmodel.representation import (
    InvalidFields,
    etag,
    loaded,
    names_of_fields,
    patched,
    read,
    same,
    selected,
    shown,
)
from core.errors import Malformed

BODY = {"tenantName": "blue", "networkName": "n1", "encap": "vxlan", "subnet": "10.1.1.0/24"}


def body(**more: Any) -> bytes:
    return json.dumps(BODY | more).encode()


def test_what_is_shown_can_be_sent_back() -> None:
    made = read(Network, body(pktTag=7)).obj
    assert made.key == "blue:n1"
    item = shown(made)
    assert item["nwType"] == "data"
    assert (item["gateway"], item["pktTag"]) == ("", 7)
    assert not {"links", "link-sets"} & item.keys()
    assert read(Network, json.dumps(item).encode()).obj == made
    assert loaded(Network, {**item, "newer": 1}) == made


def test_the_path_names_the_key() -> None:
    short = json.dumps({"encap": "vxlan", "subnet": "10.1.1.0/24"}).encode()
    assert read(Network, short, "blue:n1").obj.key == "blue:n1"
    for key in ("blue:n2", "blue", "a:b:c"):
        with pytest.raises(InvalidFields, match="differs from"):
            read(Network, body(), key)
    with pytest.raises(InvalidFields, match=r"^key: blue:n2 differs from blue:n1"):
        read(Network, body(key="blue:n2"))


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidFields) as caught:
        read(Network, body(encap="x", subnet="y", colour="red", links={}, gateway="z"))
    assert [name for name, _ in caught.value.faults] == [
        *("colour", "links", "encap", "gateway", "subnet")
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pktTag", 1.0),
        ("pktTag", True),
        ("pktTag", "7"),
        ("pktTag", None),
        ("pktTag", 1 << 64),
        ("pktTag", -1 - (1 << 63)),
        ("subnet", 10),
        ("subnet", ["10.1.1.0/24"]),
        ("networkName", "x" * 65),
        ("Subnet", "10.1.1.0/24"),
    ],
)
def test_nothing_is_converted_or_ignored(name: str, value: Any) -> None:
    with pytest.raises(InvalidFields) as caught:
        read(Network, body(**{name: value}))
    assert caught.value.faults[0][0] == name


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b'{"a":1',
        b'{"a":NaN}',
        b'{"tenantName":"a","tenantName":"a"}',
        b'{"tenantName":"\\ud800"}',
        b'{"tenantName":"\xff"}',
        b'{"tenantName":' + b"[" * 100_000,
        b'{"tenantName":1' + b"0" * 5000 + b"}",
    ],
)
def test_what_is_no_json_object_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        read(Tenant, text)


def test_a_patch_changes_what_it_names() -> None:
    stored = Netprofile(
        key="blue:p", tenant_name="blue", profile_name="p", bandwidth="1 kbps", dscp=3, burst=1500
    )
    posted = patched(stored, b'{"DSCP":null,"burst":9000}')
    assert (posted.obj.dscp, posted.obj.burst, posted.obj.bandwidth) == (0, 9000, "1 kbps")
    assert posted.named == {"dscp", "burst"}
    assert patched(stored, b"{}").obj == stored
    with pytest.raises(InvalidFields, match="colour: there is no such field"):
        patched(stored, b'{"colour":null}')
    with pytest.raises(InvalidFields, match="differs from"):
        patched(stored, b'{"profileName":"q"}')


def test_an_etag_is_of_what_is_shown() -> None:
    one = Tenant(key="a", tenant_name="a")
    linked = one.model_copy(update={"link_sets": None})
    other = one.model_copy(update={"default_network": "n"})
    assert etag(one) == etag(linked) != etag(other)
    assert same(one, linked)
    assert not same(one, other)
    assert etag(one).startswith('"')


def test_fields_are_selected() -> None:
    item = {"key": "k", "a": 1, "b": 2}
    assert selected(item, names_of_fields("b", item)) == {"key": "k", "b": 2}
    assert selected(item, names_of_fields("", item)) == item
    with pytest.raises(Malformed, match="known are key, a, b"):
        names_of_fields("a,c", item)
