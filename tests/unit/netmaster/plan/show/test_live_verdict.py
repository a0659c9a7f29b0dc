"""The first hop that dropped a packet, by where it was seen."""

from ipaddress import IPv4Address
from typing import Any

import pytest

from netmaster.plan.show.live_verdict import live_verdict
from netmaster.plan.show.trace_ends import End

TARGET = End(kind="endpoint", key="b", host="h2")
OUTSIDE = End(kind="outside")
WAY = ("h1", "h2")


def at(link: str, direction: str, endpoint: str = "", *, answer: bool = False) -> dict[str, Any]:
    return {"link": link, "direction": direction, "endpoint": endpoint, "answer": answer}


SENT = [at("eth0", "out")]
CAME = [at("eth0", "in")]
GIVEN = [*CAME, at("vvport1", "out", "b")]
ECHOED = [at("eth0", "in", answer=True), at("vvport1", "out", "a", answer=True)]


@pytest.mark.parametrize(
    ("seen", "silent", "outcome", "text"),
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
    seen: Any, silent: dict[str, str], outcome: str, text: str
) -> None:
    assert live_verdict(WAY, seen, silent, TARGET) == (outcome, text)


def test_a_packet_between_pods_of_one_host() -> None:
    here = {"h1": [at("vvport1", "out", "b")]}
    assert live_verdict(("h1",), here, {}, TARGET).outcome == "delivered"


def test_what_the_kernel_of_a_host_drops_is_no_fault_of_its_switch() -> None:
    entered = [at("contivh0", "in")]
    found = live_verdict(("h1",), {"h1": entered}, {}, OUTSIDE)
    assert found.outcome == "lost"
    assert found.text.startswith(
        "dropped by the kernel of host h1, to which its switch passed it by link contivh0: "
    )
    left = live_verdict(("h1",), {"h1": entered + SENT}, {}, OUTSIDE)
    assert left == ("left", "left host h1 by link eth0")
    own = live_verdict(("h1",), {"h1": entered}, {}, End(kind="host", host="h1"))
    assert own == ("delivered", "delivered to host h1 by link contivh0")


def test_a_packet_for_the_outside_leaves() -> None:
    found = live_verdict(("h1",), {"h1": SENT}, {}, OUTSIDE)
    assert found == ("left", "left host h1 by link eth0")


def test_what_leaves_a_host_for_an_unused_address_is_lost() -> None:
    unused = End(kind="unused", key="n1.default", addresses=(IPv4Address("10.1.1.9"),))
    assert live_verdict(("h1",), {"h1": SENT}, {}, unused) == (
        "lost",
        "left host h1 by link eth0, not for unused address 10.1.1.9 of network n1.default",
    )
