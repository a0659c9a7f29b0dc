"""The first hop that dropped a packet, by where it was seen."""

from ipaddress import IPv4Address
from typing import Any

import pytest

from netmaster.plan.show.live_verdict import live_verdict
from netmaster.plan.show.trace_ends import TraceEnd

SOURCE = TraceEnd(kind="endpoint", key="a", host="h1", tenant="default")
TARGET = TraceEnd(kind="endpoint", key="b", host="h2")
OUTSIDE = TraceEnd(kind="outside")
WAY = ("h1", "h2")


def at(link: str, direction: str, endpoint: str = "", *, answer: bool = False) -> dict[str, Any]:
    return {"link": link, "direction": direction, "endpoint": endpoint, "answer": answer}


SENT = [at("eth0", "out")]
CAME = [at("eth0", "in")]
GIVEN = [*CAME, at("vvport1", "out", "b")]
ECHOED = [at("eth0", "in", answer=True), at("vvport1", "out", "a", answer=True)]


@pytest.mark.parametrize(
    ("seen", "unreachable", "outcome", "text"),
    [
        ({"h1": SENT, "h2": GIVEN}, {}, "delivered", "delivered to endpoint b on host h2"),
        (
            {"h1": SENT + ECHOED, "h2": GIVEN},
            {},
            "delivered",
            "delivered to endpoint b on host h2, and its answer came back",
        ),
        ({"h1": [], "h2": []}, {}, "lost", "dropped by the switches of host h1"),
        # other pods may get what is flooded
        ({"h1": [at("vvport2", "out", "c")]}, {}, "lost", "dropped by the switches of host h1"),
        ({"h1": SENT, "h2": []}, {}, "lost", "lost between host h1 and host h2"),
        (
            {"h1": SENT, "h2": CAME},
            {},
            "lost",
            "dropped by the switches of host h2, which it came to by link eth0",
        ),
        # an answer alone is no sign of the packet
        ({"h1": SENT, "h2": ECHOED}, {}, "lost", "lost between host h1 and host h2"),
        (
            {"h1": SENT},
            {"h2": "no answer"},
            "unknown",
            "it left host h1, and nobody looked further; host h2: no answer",
        ),
        (
            {"h2": GIVEN},
            {"h1": "gone"},
            "unknown",
            "nobody looked at the sender's host; host h1: gone",
        ),
    ],
)
def test_the_first_hop_that_dropped_it_is_named(
    seen: Any, unreachable: dict[str, str], outcome: str, text: str
) -> None:
    assert live_verdict(WAY, seen, unreachable, SOURCE, TARGET) == (outcome, text)


def test_a_packet_between_pods_of_one_host() -> None:
    here = {"h1": [at("vvport1", "out", "b")]}
    assert live_verdict(("h1",), here, {}, SOURCE, TARGET).outcome == "delivered"


def test_what_the_kernel_of_a_host_drops_is_no_fault_of_its_switch() -> None:
    entered = [at("contivh0", "in")]
    found = live_verdict(("h1",), {"h1": entered}, {}, SOURCE, OUTSIDE)
    assert found.outcome == "lost"
    assert found.text.startswith(
        "dropped by the kernel of host h1, to which its switch passed it by link contivh0: "
    )
    left = live_verdict(("h1",), {"h1": entered + SENT}, {}, SOURCE, OUTSIDE)
    assert left == ("left", "left host h1 by link eth0")
    own = live_verdict(("h1",), {"h1": entered}, {}, SOURCE, TraceEnd(kind="host", host="h1"))
    assert own == ("delivered", "delivered to host h1 by link contivh0")


def test_a_packet_for_the_outside_leaves() -> None:
    found = live_verdict(("h1",), {"h1": SENT}, {}, SOURCE, OUTSIDE)
    assert found == ("left", "left host h1 by link eth0")


def test_what_leaves_a_host_for_an_unused_address_is_lost() -> None:
    unused = TraceEnd(kind="unused", key="n1.default", addresses=(IPv4Address("10.1.1.9"),))
    nobody = "no endpoint has the address 10.1.1.9 of network n1.default"
    for seen, what in (
        (SENT, "left host h1 by link eth0"),
        ([at("contivh0", "in")], "dropped by the kernel of host h1"),
    ):
        assert live_verdict(("h1",), {"h1": seen}, {}, SOURCE, unused) == (
            "lost",
            f"{nobody}: {what}",
        )


def test_a_pod_of_another_tenant_is_not_reached() -> None:
    other = TraceEnd(kind="endpoint", key="b", host="h2", tenant="blue")
    found = live_verdict(("h1", "h2"), {"h1": [at("contivh0", "in")]}, {}, SOURCE, other)
    assert found == (
        "lost",
        (
            "endpoint b on host h2 is in tenant blue, which pods of tenant default do not reach: "
            "dropped by the kernel of host h1"
        ),
    )


def came(what: str, link: str = "vvport1", endpoint: str = "a") -> dict[str, Any]:
    return {**at(link, "out", endpoint, answer=True), "what": what}


def told(*seen: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what an agent of this release says."""
    return [{"what": "", **one} for one in seen]


PROHIBITED = "ICMP error from 10.1.0.2: communication administratively prohibited"


@pytest.mark.parametrize(
    ("back", "text"),
    [
        ([came("SYN-ACK")], ", and its answer came back"),
        (
            [came("RST")],
            ", which refused the connection (RST): does a process listen on the port there?",
        ),
        ([came(PROHIBITED)], f", and {PROHIBITED}"),
        ([], ", and no answer came: look at the firewall and the routes within the pod"),
    ],
)
def test_what_became_of_the_answer_is_told(back: list[dict[str, Any]], text: str) -> None:
    seen = {"h1": told(*SENT, *back), "h2": told(*GIVEN)}
    found = live_verdict(WAY, seen, {}, SOURCE, TARGET)
    assert found == ("delivered", f"delivered to endpoint b on host h2{text}")


def test_an_answer_that_is_lost_on_its_way_back_is_told() -> None:
    gave = {**at("vvport1", "in", "b", answer=True), "what": "SYN-ACK"}
    seen = {"h1": told(*SENT), "h2": told(*GIVEN, gave)}
    found = live_verdict(WAY, seen, {}, SOURCE, TARGET)
    assert found.text.endswith(", but the answer it gave was lost on the way back")


@pytest.mark.parametrize(
    "seen",
    [
        {"h1": [], "h2": []},
        {"h1": [at("contivh0", "in")]},
        {"h1": SENT, "h2": []},
        {"h1": SENT, "h2": CAME},
    ],
)
def test_an_error_of_icmp_says_why_a_packet_was_dropped(seen: Any) -> None:
    before = live_verdict(WAY, seen, {}, SOURCE, TARGET)
    seen = {**seen, "h1": [*seen["h1"], came(PROHIBITED)]}
    assert live_verdict(WAY, seen, {}, SOURCE, TARGET) == (
        "lost",
        f"{before.text}; {PROHIBITED}",
    )


def test_what_the_outside_answers_is_told() -> None:
    for back, text in (
        ([came("RST")], ", which refused the connection (RST)"),
        ([came("echo reply")], ", and its answer came back"),
        ([], ", and no answer came"),
    ):
        found = live_verdict(("h1",), {"h1": told(*SENT, *back)}, {}, SOURCE, OUTSIDE)
        assert found.outcome == "left"
        assert found.text.startswith(f"left host h1 by link eth0{text}")


def test_a_service_delivers_to_a_provider() -> None:
    shop = TraceEnd(kind="service", key="shop.default", addresses=(IPv4Address("10.1.0.9"),))
    seen = {"h1": SENT, "h2": [*CAME, at("vvport2", "out", "c")]}
    found = live_verdict(WAY, seen, {}, SOURCE, shop)
    assert found == ("delivered", "delivered to endpoint c on host h2")
