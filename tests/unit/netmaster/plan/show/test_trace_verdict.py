"""What the hops of a trace come to."""

from ipaddress import IPv4Address
from typing import Any

import pytest

from netmaster.plan.show.trace_ends import TraceEnd
from netmaster.plan.show.trace_verdict import TraceVerdict, both_ways, onward, verdict

SENDER = TraceEnd(kind="endpoint", key="n1.default-db", host="h1", tenant="default")
WEB = TraceEnd(kind="endpoint", key="n1.default-web", host="h2", tenant="default")
BLUE = TraceEnd(kind="endpoint", key="n1.blue-web", host="h2", tenant="blue")
HOST = TraceEnd(kind="host", host="h1")
OUTSIDE = TraceEnd(kind="outside")
UNUSED = TraceEnd(kind="unused", key="n1.default", addresses=(IPv4Address("10.1.1.9"),))


def step(why: str, *, kind: str = "RULE", flow: str = "priority=20,ip actions=drop") -> Any:
    return {"table": 5, "tableName": "POLICY", "kind": kind, "owner": "", "why": why, "flow": flow}


def out(kind: str, name: str = "") -> Any:
    return {"kind": kind, "name": name, "port": 1, "packet": {}}


def hop(*exits: Any, host: str = "h1", faults: tuple[str, ...] = (), why: str = "rule 1") -> Any:
    return {"host": host, "steps": [step(why)], "exits": list(exits), "faults": list(faults)}


@pytest.mark.parametrize(
    ("hops", "end", "outcome", "text"),
    [
        ([hop()], WEB, "dropped", "dropped by rule 1 on host h1, table 5 POLICY"),
        (
            [hop(out("tunnel", "h2")), hop(out("endpoint", WEB.key), host="h2")],
            WEB,
            "delivered",
            "delivered to endpoint n1.default-web on host h2",
        ),
        (
            [hop(out("endpoint", "other"))],
            WEB,
            "misdelivered",
            f"misdelivered: delivered to endpoint other on host h1, not for {WEB.text}",
        ),
        (
            [hop(out("host"))],
            WEB,
            "misdelivered",
            f"misdelivered: left by the host's own network stack of host h1, not for {WEB.text}",
        ),
        (
            [hop(out("host"))],
            UNUSED,
            "misdelivered",
            (
                "misdelivered: no endpoint has the address 10.1.1.9 of network n1.default: "
                "left by the host's own network stack of host h1"
            ),
        ),
        (
            [hop(out("endpoint", "other"))],
            UNUSED,
            "misdelivered",
            (
                "misdelivered: no endpoint has the address 10.1.1.9 of network n1.default: "
                "delivered to endpoint other on host h1"
            ),
        ),
        (
            [hop(out("host"))],
            BLUE,
            "misdelivered",
            (
                "misdelivered: endpoint n1.blue-web on host h2 is in tenant blue, which pods of "
                "tenant default do not reach: left by the host's own network stack of host h1"
            ),
        ),
        ([hop(out("host"))], OUTSIDE, "left", "left by the host's own network stack of host h1"),
        ([hop(out("host"))], HOST, "delivered", "delivered to host h1"),
        ([hop(out("uplink"))], OUTSIDE, "left", "left by the uplink of host h1"),
        (
            [hop(out("agent"))],
            OUTSIDE,
            "agent",
            "left to the agent of host h1 by rule 1 on host h1, table 5 POLICY",
        ),
        (
            [hop(out("tunnel", "h2"), faults=("no route",)), hop(host="h2")],
            WEB,
            "broken",
            "broken: host h1: no route",
        ),
    ],
)
def test_verdicts(hops: list[Any], end: TraceEnd, outcome: str, text: str) -> None:
    assert verdict(hops, SENDER, end) == (outcome, text)


def test_a_service_without_providers_is_named() -> None:
    shop = TraceEnd(kind="service", key="shop:default", addresses=(IPv4Address("10.1.0.9"),))
    met = {**step("service shop:default", kind="SERVICE"), "owner": "shop:default"}
    left = {**hop(out("agent")), "steps": [met]}
    # one of Kubernetes is an address outside for netmaster
    for end in (shop, OUTSIDE):
        assert verdict([left], SENDER, end) == (
            "agent",
            (
                "service shop:default has no provider: host h1 refuses its connections: is a pod "
                "selected, and is it ready?"
            ),
        )
    assert "by rule 1" in verdict([hop(out("agent"))], SENDER, shop).text


def test_a_table_without_a_flow_is_named() -> None:
    for last in (
        step("", flow=""),
        step("all packets", kind="PIPELINE", flow="priority=1 actions="),
    ):
        found = verdict([{"host": "h1", "steps": [last], "exits": [], "faults": []}], SENDER, WEB)
        assert found.text == "dropped by no flow for it on host h1, table 5 POLICY"


def test_a_route_that_bgp_has_not_brought_is_told() -> None:
    missing = {**step("all packets", kind="PIPELINE", flow="priority=1 actions="), "table": 7}
    there: dict[str, Any] = {"host": "h1", "mode": "vlrouter", "exits": [], "faults": []}
    last = {**there, "steps": [{**missing, "tableName": "IP"}]}
    said = "the BGP peer of host h1 has told it of no route there"
    assert verdict([last], SENDER, OUTSIDE).text.endswith(said)
    for other, end in (
        ({**last, "mode": "vrouter"}, OUTSIDE),
        ({**there, "steps": [missing]}, OUTSIDE),
        (last, WEB),
    ):
        assert said not in verdict([other], SENDER, end).text


def test_a_flooded_packet_is_followed_to_whom_it_is_for() -> None:
    flooded = hop(out("tunnel", "h3"), out("endpoint", "other"), out("tunnel", "h2"))
    assert onward(flooded, WEB) == out("tunnel", "h2")
    assert onward(hop(out("endpoint", "x")), WEB) is None
    assert onward(hop(out("uplink")), WEB) is None


def test_an_answer_that_does_not_come_is_told() -> None:
    there, good = TraceVerdict("delivered", "delivered to x"), TraceVerdict("delivered", "back")
    lost = TraceVerdict("dropped", "dropped by rule 3")
    assert both_ways(there, None) == both_ways(there, good) == there
    assert both_ways(there, lost) == (
        "dropped",
        "delivered to x, but the answer is dropped by rule 3",
    )
    assert both_ways(lost, good) == lost
