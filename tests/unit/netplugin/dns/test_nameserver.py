"""DNS messages: what is answered, how, and what is left to others."""

import json
from dataclasses import replace

import dns.flags
import dns.message
import dns.opcode
import dns.tsig
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplugin.dns.nameserver import MAX_PARTS, MAX_QUESTION, NameServer
from netplugin.world.dns_records import DnsRecords
from tests.unit.netplugin.records import NET, PEER, endpoint
from tests.unit.netplugin.world.test_dns_records import service


@pytest.fixture
def server() -> NameServer:
    """Return a server of the name `shop`, and of groups of 1, 10 and 20 endpoints."""
    book = DnsRecords()
    book.put_endpoint(endpoint(1, host=PEER, group="one", v6=True))
    for number in range(10, 20):
        book.put_endpoint(endpoint(number, group="ten", v6=True))
    for number in range(20, 40):
        book.put_endpoint(endpoint(number, group="twenty", v6=number != 20))
    book.put_service(service())
    return NameServer(book)


def asked(server: NameServer, query: dns.message.Message) -> dns.message.Message | None:
    reply = server.resolve(NET, query.to_wire())
    return None if reply is None else dns.message.from_wire(reply)


def told(server: NameServer, name: str, rdtype: str = "A") -> list[str] | None:
    """Return the addresses a name has according to an answer, None without one."""
    reply = asked(server, dns.message.make_query(name, rdtype))
    if reply is None:
        return None
    return [record.address for records in reply.answer for record in records]


def counters(server: NameServer) -> dict[str, int]:
    return dict(server.report()["stats"]["default"])


def test_an_answer(server: NameServer) -> None:
    query = dns.message.make_query("One", "A")
    reply = asked(server, query)
    assert reply is not None
    assert query.is_response(reply)
    assert reply.flags == dns.flags.QR | dns.flags.AA | dns.flags.RA | dns.flags.RD
    assert [records.to_text() for records in reply.answer] == ["One. 120 IN A 10.1.0.1"]
    assert counters(server) == {"foundNameRecord": 1}


@pytest.mark.parametrize(
    ("name", "rdtype", "addresses"),
    [
        ("one.", "A", ["10.1.0.1"]),
        ("c1", "A", ["10.1.0.1"]),
        ("one", "AAAA", ["2001:db8::1"]),
        ("one", "ANY", ["10.1.0.1"]),
        ("shop", "A", ["10.1.9.1"]),
        ("c20", "AAAA", []),
        ("shop", "AAAA", []),
        ("shop", "ANY", ["10.1.9.1"]),
        ("one", "TXT", None),
        ("one.default", "A", None),
        ("o\\.ne", "A", None),
        (".", "A", None),
    ],
)
def test_names(server: NameServer, name: str, rdtype: str, addresses: list[str] | None) -> None:
    assert told(server, name, rdtype) == addresses


def test_any_is_answered_by_ipv6_addresses_where_there_are_no_others() -> None:
    book = DnsRecords()
    book.put_endpoint(replace(endpoint(1, v6=True), ip_address=""))
    assert told(NameServer(book), "c1", "ANY") == ["2001:db8::1"]


@pytest.mark.parametrize("rdtype", ["A", "AAAA"])
def test_ten_are_told_of_at_a_time_and_of_all_in_the_end(server: NameServer, rdtype: str) -> None:
    ten, twenty = told(server, "ten", rdtype), told(server, "twenty", rdtype)
    assert ten is not None
    assert twenty is not None
    assert (len(set(ten)), len(set(twenty))) == (10, 10)
    for _ in range(20):
        twenty += told(server, "twenty", rdtype) or []
    assert len(set(twenty)) == (20 if rdtype == "A" else 19)


def test_all_questions_of_a_message_are_looked_at(server: NameServer) -> None:
    query = dns.message.make_query("nowhere", "A")
    for name in ("one", "shop"):
        query.question += dns.message.make_query(name, "A").question
    reply = asked(server, query)
    assert reply is not None
    assert [records.name.to_text() for records in reply.answer] == ["one.", "shop."]


def test_who_speaks_edns_is_answered_so(server: NameServer) -> None:
    reply = asked(server, dns.message.make_query("one", "A", use_edns=0, payload=4096))
    assert reply is not None
    assert (reply.edns, reply.payload) == (0, MAX_QUESTION)


def query_of(**changes: object) -> bytes:
    query = dns.message.make_query("one", "A")
    for name, value in changes.items():
        setattr(query, name, value)
    return query.to_wire()


def signed() -> bytes:
    query = dns.message.make_query("one", "A")
    query.use_tsig(dns.tsig.Key("key", "c2VjcmV0"))
    return query.to_wire()


def opcode(number: dns.opcode.Opcode) -> bytes:
    query = dns.message.make_query("one", "A")
    query.set_opcode(number)
    return query.to_wire()


def crowded(questions: int) -> bytes:
    query = dns.message.make_query("one", "A")
    query.question *= questions
    return query.to_wire()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"who is contiv",
        query_of()[:-1],
        query_of() + b"more",
        query_of(flags=dns.flags.QR),
        dns.message.make_query("one", "A", use_edns=1).to_wire(),
        signed(),
        opcode(dns.opcode.STATUS),
        opcode(dns.opcode.NOTIFY),
        opcode(dns.opcode.UPDATE),
        crowded(MAX_PARTS + 1),
        dns.message.make_query("one", "A", use_edns=0, pad=MAX_QUESTION + 8).to_wire(),
    ],
)
def test_what_is_no_question_is_left_to_others(server: NameServer, message: bytes) -> None:
    assert server.resolve(NET, message) is None
    assert counters(server) == {"invalidQuery": 1}


def test_what_is_unknown_is_left_to_others(server: NameServer) -> None:
    assert told(server, "nowhere") is None
    assert asked(server, dns.message.make_query("one", "A", "CH")) is None
    assert asked(server, dns.message.Message()) is None
    assert counters(server) == {"noNameRecord": 3}


MESSAGES = [
    dns.message.make_query("one", "ANY", use_edns=0, payload=512).to_wire(),
    dns.message.make_response(dns.message.make_query("one", "A")).to_wire(),
    signed(),
    crowded(MAX_PARTS),
]


@given(st.sampled_from(MESSAGES), st.integers(0, 80), st.binary(max_size=6), st.integers(0, 80))
def test_no_message_raises(message: bytes, at: int, noise: bytes, end: int) -> None:
    book = DnsRecords()
    book.put_endpoint(endpoint(1, group="one", v6=True))
    server = NameServer(book)
    changed = message[:at] + noise + message[at + len(noise) :]
    for sent in (changed, changed[:end], noise):
        server.resolve(NET, sent)


def test_what_is_shown(server: NameServer) -> None:
    told(server, "one")
    told(server, "nowhere")
    shown = json.loads(json.dumps(server.report()))
    assert shown.keys() == {"serviceQueue", "endpointQueue", "dnsRecords", "stats"}
    assert (shown["serviceQueue"], shown["endpointQueue"]) == (0, 0)
    assert shown["stats"] == {"default": {"foundNameRecord": 1, "noNameRecord": 1}}
    records = shown["dnsRecords"]
    assert records.keys() == {"default", "k8sDefaultTenant"}
    assert records["default"]["services"] == {"shop": ["ipv4:10.1.9.1 ipv6:<nil>"]}
    assert records["default"]["commonNames"]["c1"] == ["ipv4:10.1.0.1 ipv6:2001:db8::1"]
    assert len(records["default"]["endpointGroups"]["twenty"]) == 20
