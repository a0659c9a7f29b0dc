"""The text of a journal entry, beside files that an agent of release 0.1.0's format wrote."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from core.ids import EndpointKey, GroupName, NetworkName, TenantName
from netplugin.cni.interface_spec import Delivery, InterfaceSpec
from netplugin.cni.net_config import BandwidthLimit
from netplugin.cni.port_mappings import PortMapping
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry, parse, text_of
from tests.unit.netplugin.records import journal_entry

FILES = Path("tests/golden/journal")
ENTRY = journal_entry()
TEXT = text_of(ENTRY)
MEMBERS = json.loads(TEXT)

FIRST = JournalEntry(
    key=EndpointKey("default-net.default-c1f0"),
    spec=InterfaceSpec(
        container_id="c1f0",
        endpoint="c1f0",
        netns="/run/netns/pod-1",
        ifname="eth0",
        tenant=TenantName("default"),
        network=NetworkName("default-net"),
        network_name="contiv-net",
        attachment_id="c1f0",
    ),
    port=7,
    bridge="contivVxlanBridge",
    state=EntryState.ADDING,
)
SECOND = JournalEntry(
    key=EndpointKey("back.blue-c1f0@net1"),
    spec=InterfaceSpec(
        container_id="c1f0",
        endpoint="c1f0@net1",
        netns="/run/netns/pod-1",
        ifname="net1",
        tenant=TenantName("blue"),
        network=NetworkName("back"),
        group=GroupName("db"),
        limit=BandwidthLimit(8000, 16000),
        receive_limit=BandwidthLimit(4000, 2000),
        mappings=(
            PortMapping(protocol="tcp", host_port=8080, container_port=80),
            PortMapping(protocol="tcp", host_port=8443, container_port=443, host_ip="192.0.2.1"),
        ),
        mac="02:02:0a:01:01:09",
        keep="shop/db-0",
        network_name="contiv-net",
        attachment_id="c1f0",
        labels={"app": "web", "tier": "ü"},
    ),
    port=8,
    bridge="contivVxlanBridge",
    state=EntryState.PRESENT,
    name="web-1",
    ip_address="10.1.1.9",
    ipv6_address="2001:db8::9",
    claiming=True,
    term="t1",
    rev=42,
    block="b-7",
)
HANDED_OVER = JournalEntry(
    key=EndpointKey("back.blue-e5a0"),
    spec=InterfaceSpec(
        container_id="e5a0",
        endpoint="e5a0",
        netns="",
        ifname="eth0",
        tenant=TenantName("blue"),
        network=NetworkName("back"),
        group=GroupName("db"),
        default_route=False,
        delivery=Delivery.HANDED_OVER,
        mac="02:02:0a:01:01:05",
    ),
    port=9,
    bridge="contivVxlanBridge",
    state=EntryState.PRESENT,
    joined="/var/run/docker/netns/4af1",
    ip_address="10.1.1.5",
    term="t1",
    rev=43,
)


@pytest.mark.parametrize(
    ("name", "entry"), [("first", FIRST), ("second", SECOND), ("handed-over", HANDED_OVER)]
)
def test_a_recorded_file_is_read_whole_and_written_byte_for_byte(
    name: str, entry: JournalEntry
) -> None:
    text = (FILES / f"{name}.json").read_text(encoding="utf-8")
    read = parse(text)
    assert asdict(read) == asdict(entry)  # `==` leaves out what is not compared
    assert read == entry
    assert text_of(read) == text


def test_the_namespace_that_an_engine_chose_is_not_part_of_what_was_asked() -> None:
    assert HANDED_OVER.netns == "/var/run/docker/netns/4af1"
    assert replace(HANDED_OVER, joined="").spec == HANDED_OVER.spec
    assert replace(HANDED_OVER, joined="").netns == ""


def test_an_entry_of_an_older_agent_lacks_name_and_addresses() -> None:
    first = (
        *("key", "container_id", "netns", "ifname", "tenant", "network", "group", "port"),
        *("bridge", "state"),
    )
    text = {name: value for name, value in MEMBERS.items() if name in first}
    assert asdict(parse(json.dumps(text))) == asdict(ENTRY)
    assert parse(json.dumps(text | {"group": None})) == ENTRY


def test_members_of_a_newer_agent_are_passed_over() -> None:
    assert parse(json.dumps(MEMBERS | {"colour": "red"})) == ENTRY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "EOF while parsing"),
        ("{", "EOF while parsing"),
        ("[" * 100_000, "recursion limit"),
        (json.dumps(MEMBERS | {"name": "\ud800"}), "hex escape"),
        (json.dumps(MEMBERS | {"rev": 10**400}), "beyond 64 bits"),
        (TEXT.replace('"rev": 0', '"rev": 1e999'), "without end"),
        ("[]", "not an object"),
        ("{}", "missing"),
        (json.dumps(MEMBERS | {"port": "7"}), "port of the wrong type"),
        (json.dumps(MEMBERS | {"labels": None}), "labels of the wrong type"),
        (json.dumps(MEMBERS | {"key": None}), "key of the wrong type"),
        (json.dumps(MEMBERS | {"state": "asleep"}), "asleep"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)
