"""DNS messages: what is answered, how, and what is left to others."""

import json
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rrset
import dns.tsig
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ids import POD_NAMESPACE
from netplugin.dns.messages import MAX_PARTS, MAX_QUESTION, PAYLOAD
from netplugin.dns.nameserver import MAX_ALIASES, ClusterDns, NameServer
from netplugin.dns.rate_limit import RateLimit
from netplugin.world.dns.dns_records import DnsRecords
from netplugin.world.kubernetes.kube_services import KubeService
from ofnet.packets.dns_answers import Deferred, NameVerdict, Question
from tests.unit.netplugin.records import NET, PEER, endpoint, key, nid_of
from tests.unit.netplugin.world.dns_records import service
from tests.unit.netplugin.world.kube_names import DB, OUTSIDE, WEB, member
from tests.unit.netplugin.worlds import name_book

SERVER = IPv4Address("10.1.0.53")


@pytest.fixture
def server() -> NameServer:
    """Return a server of the name `shop`, and of groups of 1, 10 and 20 endpoints."""
    book = name_book()
    book.endpoints.put(endpoint(1, host=PEER, group="one", v6=True))
    for number in range(10, 20):
        book.endpoints.put(endpoint(number, group="ten", v6=True))
    for number in range(20, 40):
        book.endpoints.put(endpoint(number, group="twenty", v6=number != 20))
    book.put_service(service())
    return served(book)


def served(book: DnsRecords, own: ClusterDns | None = None, rate: int = 0) -> NameServer:
    """Return a server whose clock stands still."""
    return NameServer(book, RateLimit(rate, lambda: 1.0), own)


def question(
    message: bytes, *, server: IPv4Address = SERVER, tcp: bool = False, judged: bool = True
) -> Question:
    return Question(
        pod=key("c1"), network=NET, server=server, message=message, tcp=tcp, judged=judged
    )


def asked(server: NameServer, query: dns.message.Message) -> dns.message.Message | None:
    reply = server.resolve(question(query.to_wire()))
    return dns.message.from_wire(reply) if isinstance(reply, bytes) else None


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
        ("one.default", "A", None),
        ("o\\.ne", "A", None),
        (".", "A", None),
    ],
)
def test_names(server: NameServer, name: str, rdtype: str, addresses: list[str] | None) -> None:
    assert told(server, name, rdtype) == addresses


@pytest.mark.parametrize("rdtype", ["HTTPS", "SVCB", "TXT", "MX", "SRV", "SOA", "NS", "PTR"])
@pytest.mark.parametrize("name", ["one", "c1", "shop", "web", "web.shop", "web.shop.svc"])
def test_a_name_that_exists_has_an_empty_answer_for_other_types(name: str, rdtype: str) -> None:
    book = name_book()
    book.endpoints.put(endpoint(1, group="one"))
    book.put_service(service())
    book.kube.put(WEB)
    reply = asked(served(book), dns.message.make_query(name, rdtype))
    assert reply is not None
    assert (reply.rcode(), reply.answer, reply.authority) == (dns.rcode.NOERROR, [], [])


def test_a_pods_name_waits_until_services_are_known() -> None:
    """It may be a service's, which comes first."""
    book = name_book()
    book.endpoints.put(replace(endpoint(1), labels={POD_NAMESPACE: "shop"}, common_name="web"))
    server = served(book)
    known: list[bool] = []
    server.follow(lambda: bool(known))
    assert told(server, "web") is None
    known.append(True)
    assert told(server, "web") == ["10.1.0.1"]
    book.kube.put(WEB)
    assert told(server, "web") == ["10.96.0.10"]


def test_any_is_answered_by_ipv6_addresses_where_there_are_no_others() -> None:
    book = name_book()
    book.endpoints.put(replace(endpoint(1, v6=True), ip_address=""))
    assert told(served(book), "c1", "ANY") == ["2001:db8::1"]


def test_what_is_asked_again_is_answered_by_what_is_known_then() -> None:
    """Queries and answers are kept: by all that they say, not by who asks, or when."""
    book = name_book()
    book.endpoints.put(endpoint(1))
    made = served(book)
    query = dns.message.make_query("c1", "A").to_wire()
    first, again = (made.resolve(question(number + query[2:])) for number in (b"\0\1", b"\0\2"))
    assert isinstance(first, bytes)
    assert isinstance(again, bytes)
    assert (first[:2], again[:2], first[2:]) == (b"\0\1", b"\0\2", again[2:])
    book.endpoints.put(replace(endpoint(1), ip_address="10.1.0.99"))
    assert told(made, "c1") == ["10.1.0.99"]
    book.endpoints.remove(endpoint(1).key)
    assert told(made, "c1") is None


def test_what_differs_in_case_or_edns_is_answered_so() -> None:
    book = name_book()
    book.endpoints.put(endpoint(1))
    made = served(book)
    for name in ("c1", "C1"):
        for edns in (-1, 0):
            query = dns.message.make_query(name, "A", use_edns=edns)
            reply = asked(made, query)
            assert reply is not None
            assert query.is_response(reply)
            assert str(reply.question[0].name) == f"{name}."
            assert reply.edns == edns


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
    assert (reply.edns, reply.payload) == (0, PAYLOAD)


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
    assert server.resolve(question(message)) is NameVerdict.FORWARD
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
    book = name_book()
    book.endpoints.put(endpoint(1, group="one", v6=True))
    server = served(book)
    changed = message[:at] + noise + message[at + len(noise) :]
    for sent in (changed, changed[:end], noise):
        server.resolve(question(sent))


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


# -- Kubernetes, and the agent as the cluster's only name server ---------------------------------

OWN = IPv4Address("10.96.0.2")


class Servers:
    """Name servers outside that are asked, and answer when the test wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[dns.message.Message, bool]] = []
        self._waiting: list[Callable[[bytes | None], None]] = []

    def ask(
        self, message: bytes, done: Callable[[bytes | None], None], *, tcp: bool = False
    ) -> None:
        self.asked.append((dns.message.from_wire(message), tcp))
        self._waiting.append(done)

    def answer(self, *records: str) -> None:
        query, _ = self.asked[-1]
        reply = dns.message.make_response(query)
        for record in records:
            name, *rest = record.split()
            reply.answer.append(dns.rrset.from_text(name, 60, "IN", *rest))
        self._waiting.pop()(reply.to_wire())

    def fail(self) -> None:
        self._waiting.pop()(None)


@pytest.fixture
def outside() -> Servers:
    return Servers()


@pytest.fixture
def cluster(outside: Servers) -> NameServer:
    """Return the only name server of a cluster whose services are known."""
    book = name_book()
    for one in (WEB, DB, OUTSIDE):
        book.kube.put(one)
    book.endpoints.put(endpoint(9))
    made = served(book, ClusterDns(OWN, outside))
    made.follow(lambda: True)
    return made


def reply_of(
    server: NameServer, name: str, rdtype: str = "A", *, to: IPv4Address = OWN
) -> dns.message.Message | None:
    query = dns.message.make_query(name, rdtype, use_edns=0, payload=4096)
    outcome = server.resolve(question(query.to_wire(), server=to))
    return dns.message.from_wire(outcome) if isinstance(outcome, bytes) else None


def lines(reply: dns.message.Message | None) -> list[str]:
    assert reply is not None
    return sorted(line for records in reply.answer for line in records.to_text().splitlines())


@pytest.mark.parametrize(
    ("name", "rdtype", "wanted"),
    [
        ("web.shop.svc.cluster.local", "A", ["10.96.0.10"]),
        ("web.shop.svc.cluster.local", "AAAA", ["fd00::10"]),
        ("_http._tcp.web.shop.svc.cluster.local", "SRV", ["0 100 80 web.shop.svc.cluster.local."]),
        ("10.0.96.10.in-addr.arpa", "PTR", ["web.shop.svc.cluster.local."]),
        ("db.shop.svc.cluster.local", "A", ["10.1.0.1", "10.1.0.2"]),
        ("db-0.db.shop.svc.cluster.local", "AAAA", ["2001:db8::1"]),
        (
            "_sql._tcp.db.shop.svc.cluster.local",
            "SRV",
            [
                "0 50 15432 10-1-0-2.db.shop.svc.cluster.local.",
                "0 50 15432 db-0.db.shop.svc.cluster.local.",
            ],
        ),
        ("pay.shop.svc.cluster.local", "CNAME", ["pay.example.com."]),
        ("dns-version.cluster.local", "TXT", ['"1.1.0"']),
        ("10-1-0-7.shop.pod.cluster.local", "A", ["10.1.0.7"]),
    ],
)
def test_names_of_kubernetes(
    cluster: NameServer, name: str, rdtype: str, wanted: list[str]
) -> None:
    reply = reply_of(cluster, name, rdtype)
    assert lines(reply) == [f"{name}. 5 IN {rdtype} {value}" for value in wanted]
    assert lines(reply_of(cluster, name, rdtype, to=SERVER)) == lines(reply)


def test_a_name_without_the_type_exists_and_another_does_not(cluster: NameServer) -> None:
    for name, rdtype in (("web.shop.svc.cluster.local", "TXT"), ("svc.cluster.local", "A")):
        nodata = reply_of(cluster, name, rdtype)
        assert nodata is not None
        assert (nodata.rcode(), nodata.answer) == (dns.rcode.NOERROR, [])
        assert [records.rdtype.name for records in nodata.authority] == ["SOA"]
    for server in (OWN, SERVER):
        nothing = reply_of(cluster, "www.example.com.shop.svc.cluster.local", to=server)
        assert nothing is not None
        assert nothing.rcode() == dns.rcode.NXDOMAIN
        assert [records.name.to_text() for records in nothing.authority] == ["cluster.local."]


def test_services_that_are_not_known_yet_are_no_error_of_the_name(
    cluster: NameServer, outside: Servers
) -> None:
    cluster.follow(lambda: False)
    reply = reply_of(cluster, "new.shop.svc.cluster.local")
    assert reply is not None
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert outside.asked == []
    assert reply_of(cluster, "new.shop.svc.cluster.local", to=SERVER) is None


def test_beside_another_name_server_it_knows_what_is_not_known_here() -> None:
    book = name_book()
    book.kube.put(OUTSIDE)
    server = served(book)
    server.follow(lambda: True)
    for name in ("new.shop.svc.cluster.local", "pay.shop.svc.cluster.local"):
        message = dns.message.make_query(name, "A").to_wire()
        assert server.resolve(question(message)) is NameVerdict.FORWARD


def told_later(
    server: NameServer, name: str, *, to: IPv4Address = OWN, tcp: bool = False
) -> list[dns.message.Message]:
    """Ask for a name that takes time; return the list into which the answer will come."""
    query = dns.message.make_query(name, "A")
    outcome = server.resolve(question(query.to_wire(), server=to, tcp=tcp))
    assert isinstance(outcome, Deferred)
    replies: list[dns.message.Message] = []
    outcome.ask(lambda reply: replies.append(dns.message.from_wire(reply)))
    assert replies == []
    return replies


@pytest.mark.parametrize("tcp", [True, False])
def test_names_outside_are_asked_of_servers_outside(
    cluster: NameServer, outside: Servers, tcp: bool
) -> None:
    replies = told_later(cluster, "www.example.com", tcp=tcp)
    assert outside.asked[0][1] == tcp
    outside.answer("www.example.com. A 192.0.2.1")
    assert lines(replies[0]) == ["www.example.com. 60 IN A 192.0.2.1"]
    replies = told_later(cluster, "www.example.com")
    outside.fail()
    assert replies[0].rcode() == dns.rcode.SERVFAIL
    assert reply_of(cluster, "www.example.com", to=SERVER) is None, "another server is asked"


@pytest.mark.parametrize("tcp", [True, False])
@pytest.mark.parametrize(
    "name", ["www.example.com", "pay.shop.svc.cluster.local", "web.shop.svc.cluster.local", "c9"]
)
def test_what_no_policy_has_judged_is_neither_asked_nor_answered(
    cluster: NameServer, outside: Servers, name: str, tcp: bool
) -> None:
    query = dns.message.make_query(name, "A").to_wire()
    asked_of = question(query, server=OWN, tcp=tcp, judged=False)
    assert cluster.resolve(asked_of) is NameVerdict.DROP
    assert outside.asked == []
    assert counters(cluster) == {"unjudged": 1}


def test_what_is_no_question_goes_nowhere_if_the_agent_is_the_server(cluster: NameServer) -> None:
    assert cluster.resolve(question(b"who", server=OWN)) is NameVerdict.DROP


def test_a_service_of_type_external_name_is_followed(cluster: NameServer, outside: Servers) -> None:
    replies = told_later(cluster, "pay.shop.svc.cluster.local")
    outside.answer("pay.example.com. A 192.0.2.2")
    assert lines(replies[0]) == [
        "pay.example.com. 60 IN A 192.0.2.2",
        "pay.shop.svc.cluster.local. 5 IN CNAME pay.example.com.",
    ]
    replies = told_later(cluster, "pay.shop.svc.cluster.local")
    outside.fail()
    assert replies[0].rcode() == dns.rcode.SERVFAIL


CHAINED = ("pay", "web.shop.svc.cluster.local")


def aliases(*pairs: tuple[str, str]) -> list[KubeService]:
    """Return services of type ExternalName in the namespace `shop`."""
    return [KubeService(namespace="shop", name=own, external_name=of) for own, of in pairs]


def cluster_of(outside: Servers, *pairs: tuple[str, str]) -> NameServer:
    """Return the only name server of a cluster with two services and these aliases."""
    book = name_book()
    for one in (WEB, DB, *aliases(*pairs)):
        book.kube.put(one)
    made = served(book, ClusterDns(OWN, outside))
    made.follow(lambda: True)
    return made


@pytest.mark.parametrize("family", ["A", "AAAA"])
def test_an_alias_of_a_service_is_followed_within_the_cluster(
    outside: Servers, family: str
) -> None:
    server = cluster_of(outside, CHAINED, ("buy", "Pay.shop.svc.cluster.local."))
    address = {"A": "10.96.0.10", "AAAA": "fd00::10"}[family]
    reply = reply_of(server, "buy.shop.svc.cluster.local", family)
    assert [line for line in lines(reply) if "CNAME" in line] == [
        "buy.shop.svc.cluster.local. 5 IN CNAME pay.shop.svc.cluster.local.",
        "pay.shop.svc.cluster.local. 5 IN CNAME web.shop.svc.cluster.local.",
    ]
    found = [line for line in lines(reply) if "CNAME" not in line]
    assert found == [f"web.shop.svc.cluster.local. 5 IN {family} {address}"]
    assert reply is not None
    assert reply.rcode() == dns.rcode.NOERROR
    assert outside.asked == []


def test_aliases_of_aliases_may_end_outside(outside: Servers) -> None:
    server = cluster_of(outside, ("pay", "pay.example.com"), ("buy", "pay.shop.svc.cluster.local"))
    replies = told_later(server, "buy.shop.svc.cluster.local")
    outside.answer("pay.example.com. A 192.0.2.2")
    assert lines(replies[0]) == [
        "buy.shop.svc.cluster.local. 5 IN CNAME pay.shop.svc.cluster.local.",
        "pay.example.com. 60 IN A 192.0.2.2",
        "pay.shop.svc.cluster.local. 5 IN CNAME pay.example.com.",
    ]


def test_an_alias_of_a_headless_service_and_of_nothing(outside: Servers) -> None:
    server = cluster_of(
        outside, ("sql", "db.shop.svc.cluster.local"), ("gone", "absent.shop.svc.cluster.local")
    )
    found = lines(reply_of(server, "sql.shop.svc.cluster.local"))
    assert {line.split()[0] for line in found if " A " in line} == {"db.shop.svc.cluster.local."}
    reply = reply_of(server, "gone.shop.svc.cluster.local")
    assert reply is not None
    assert reply.rcode() == dns.rcode.NXDOMAIN
    assert len(reply.authority) == 1
    assert len(lines(reply)) == 1


def test_aliases_in_a_circle_and_long_chains_fail(outside: Servers) -> None:
    pairs = [(f"a{at}", f"a{at + 1}.shop.svc.cluster.local") for at in range(MAX_ALIASES + 1)]
    circle = [("b1", "b2.shop.svc.cluster.local"), ("b2", "b1.shop.svc.cluster.local")]
    last = (f"a{MAX_ALIASES + 1}", "web.shop.svc.cluster.local")
    server = cluster_of(outside, *pairs, *circle, last)
    codes = {}
    for name in ("a0", "a1", "a2", "b1"):
        reply = reply_of(server, f"{name}.shop.svc.cluster.local")
        assert reply is not None
        codes[name] = dns.rcode.to_text(reply.rcode())
    assert codes == {"a0": "SERVFAIL", "a1": "SERVFAIL", "a2": "NOERROR", "b1": "SERVFAIL"}
    assert outside.asked == []


def test_an_alias_waits_for_services_that_are_not_known_yet(outside: Servers) -> None:
    book = name_book()
    for one in aliases(("pay", "absent.shop.svc.cluster.local")):
        book.kube.put(one)
    server = served(book, ClusterDns(OWN, outside))
    server.follow(lambda: False)
    reply = reply_of(server, "pay.shop.svc.cluster.local")
    assert reply is not None
    assert reply.rcode() == dns.rcode.SERVFAIL


def test_a_tenant_sees_its_own_pods_behind_a_headless_service() -> None:
    book = name_book()
    book.kube.put(DB)
    book.endpoints.put(replace(endpoint(1), key=key("ours"), common_name="db-0"))
    theirs = replace(endpoint(2, nid=nid_of("n1", "blue")), common_name="db-1")
    book.endpoints.put(theirs)
    assert lines(reply_of(served(book), "db.shop.svc.cluster.local", to=SERVER)) == [
        "db.shop.svc.cluster.local. 5 IN A 10.1.0.1"
    ]
    assert len(lines(reply_of(served(book), "_sql._tcp.db.shop.svc.cluster.local", "SRV"))) == 1


def test_an_answer_is_as_large_as_its_asker_takes() -> None:
    many = frozenset(member(f"10.1.{number // 250}.{number % 250 + 1}") for number in range(300))
    book = name_book()
    book.kube.put(replace(DB, members=many))
    server = served(book)
    name = "db.shop.svc.cluster.local"
    plain = dns.message.make_query(name, "A").to_wire()
    large = dns.message.make_query(name, "A", use_edns=0, payload=4096).to_wire()
    for message, limit in ((plain, 512), (large, PAYLOAD)):
        outcome = server.resolve(question(message))
        assert isinstance(outcome, bytes)
        assert len(outcome) <= limit
        assert dns.message.from_wire(outcome).flags & dns.flags.TC
    whole = server.resolve(question(plain, tcp=True))
    assert isinstance(whole, bytes)
    reply = dns.message.from_wire(whole)
    assert not reply.flags & dns.flags.TC
    assert len(lines(reply)) == 300


def test_a_pod_that_asks_too_much_is_not_answered(server: NameServer) -> None:
    limited = served(server._records, rate=1)
    message = query_of()
    outcomes = [limited.resolve(question(message)) for _ in range(5)]
    assert [outcome is NameVerdict.DROP for outcome in outcomes] == [False, False, True, True, True]
    other = replace(question(message), pod=key("c2"))
    assert isinstance(limited.resolve(other), bytes)
    assert counters(limited) == {"foundNameRecord": 3, "limited": 3}


def test_a_host_is_told_of_the_cluster_and_the_outside_and_no_bare_name(
    cluster: NameServer, outside: Servers
) -> None:
    web = dns.message.make_query("web.shop.svc.cluster.local", "A")
    reply = cluster.of_host(web.to_wire(), tcp=False)
    assert isinstance(reply, bytes)
    assert lines(dns.message.from_wire(reply)) == lines(
        reply_of(cluster, "web.shop.svc.cluster.local")
    )
    assert told_of(cluster, "c9"), "a pod's bare name"
    for name in ("c9", "www.example.com"):
        outcome = cluster.of_host(dns.message.make_query(name, "A").to_wire(), tcp=True)
        assert isinstance(outcome, Deferred)
        outcome.ask(lambda _: None)
        asked_last, tcp = outside.asked[-1]
        assert (asked_last.question[0].name.to_text(), tcp) == (f"{name}.", True)


def told_of(server: NameServer, name: str) -> list[str]:
    return lines(reply_of(server, name))


def test_a_host_is_told_nothing_beside_another_name_server() -> None:
    message = dns.message.make_query("web.shop.svc.cluster.local", "A").to_wire()
    assert served(name_book()).of_host(message, tcp=False) is NameVerdict.DROP
