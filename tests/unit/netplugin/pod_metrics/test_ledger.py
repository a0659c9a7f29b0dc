"""Accounts of pods: what they count from, who is named, what stays when they go."""

from core.ids import EndpointKey
from netplugin.pod_metrics.ledger import (
    HALF_LIFE,
    NOTHING,
    Direction,
    DropKind,
    Group,
    Ledger,
    PodTraffic,
    PresentPod,
)
from state.flow_records import EndNames

WEB = Group("default", "n1", "web")
DENIED = DropKind(Direction.SENT, "policy")


def pod(name: str, group: str = "web") -> PresentPod:
    names = EndNames(tenant="default", network="n1", group=group, namespace="shop", pod=name)
    return PresentPod(names, (f"vvport-{name}", f"hport-{name}"))


def pods(*names: str) -> dict[EndpointKey, PresentPod]:
    return {EndpointKey(name): pod(name) for name in names}


def links(**sizes: int) -> dict[str, PodTraffic]:
    """Return the links of pods, each with so many bytes and one packet received."""
    return {f"vvport-{name}": PodTraffic(size, 1) for name, size in sizes.items()}


def received(ledger: Ledger) -> dict[str, int]:
    return {key: one.traffic.received_bytes for key, one in ledger.pods.items()}


def test_what_links_had_before_is_not_counted_and_all_of_a_new_link_is() -> None:
    ledger = Ledger(links(a=100), 0)
    ledger.take(pods("a"), links(a=100), 1)
    assert received(ledger) == {"a": 0}
    ledger.take(pods("a", "b"), links(a=130, b=7), 2)
    assert received(ledger) == {"a": 30, "b": 7}
    assert ledger.groups[WEB].traffic == PodTraffic(37, 1)


def test_both_links_of_a_pod_are_its_own() -> None:
    ledger = Ledger({}, 0)
    both = {"vvport-a": PodTraffic(1, 2, 3, 4), "hport-a": PodTraffic(10, 20, 30, 40)}
    ledger.take(pods("a"), {**both, "vvport-c": PodTraffic(5, 5, 5, 5)}, 1)
    assert ledger.pods[EndpointKey("a")].traffic == PodTraffic(11, 22, 33, 44)


def test_a_link_that_is_made_anew_counts_from_0() -> None:
    ledger = Ledger({}, 0)
    for size in (50, 20, 25):
        ledger.take(pods("a"), links(a=size), 1)
    assert received(ledger) == {"a": 75}
    ledger.take(pods("a"), {}, 2)
    assert received(ledger) == {"a": 75}


def test_a_pod_that_goes_leaves_the_last_of_its_counters_in_the_sum_of_its_group() -> None:
    ledger = Ledger({}, 0)
    ledger.take(pods("a", "b"), links(a=10, b=1), 1)
    ledger.report(EndpointKey("a"), pod("a"), DENIED, 3)
    ledger.take(pods("b"), links(a=15, b=1), 2)
    assert received(ledger) == {"b": 1}
    ledger.take({}, {}, 3)
    assert ledger.pods == {}
    assert ledger.groups[WEB].traffic.received_bytes == 16
    assert ledger.groups[WEB].drops == {DENIED: 3}


def test_groups_without_pods_are_forgotten_once_they_do_not_exist() -> None:
    ledger = Ledger({}, 0)
    ledger.take({EndpointKey("a"): pod("a", ""), **pods("b")}, {}, 1)
    ledger.forget(lambda _group: False)
    assert set(ledger.groups) == {WEB, Group("default", "n1", "")}
    ledger.take({}, {}, 2)
    ledger.forget(lambda group: group == WEB)
    assert set(ledger.groups) == {WEB}


def named(ledger: Ledger, most: int) -> set[str]:
    return {one.names.pod for one in ledger.named(most)}


def test_the_pods_with_most_traffic_of_late_are_named() -> None:
    ledger = Ledger({}, 0)
    present = pods("a", "b", "c")
    ledger.take(present, links(a=1000, b=10, c=20), 1)
    assert named(ledger, 1) == {"a"}
    assert named(ledger, 2) == {"a", "c"}
    assert named(ledger, 3) == named(ledger, 9) == {"a", "b", "c"}
    # the other way than this one's greater sum
    ledger.take(present, links(a=1000, b=700, c=20), 1 + HALF_LIFE)
    assert named(ledger, 1) == {"b"}
    assert received(ledger)["a"] == 1000


def test_after_a_start_those_are_named_that_had_most_before() -> None:
    ledger = Ledger(links(a=5, b=9), 0)
    ledger.take(pods("a", "b"), links(a=6, b=9), 1)
    assert named(ledger, 1) == {"b"}
    assert ledger.pods[EndpointKey("b")].traffic == NOTHING


def test_of_reported_and_counted_drops_the_greater_number_holds() -> None:
    ledger = Ledger({}, 0)
    key, spoofed = EndpointKey("a"), DropKind(Direction.SENT, "spoofed")
    ledger.report(key, pod("a"), DENIED, 10)
    ledger.count(key, pod("a"), DENIED, 8)
    assert ledger.pods[key].drops == {DENIED: 10}
    ledger.count(key, pod("a"), DENIED, 5)
    ledger.count(key, pod("a"), spoofed, 2)
    assert ledger.pods[key].drops == {DENIED: 13, spoofed: 2} == ledger.groups[WEB].drops
    ledger.report(key, pod("a"), DENIED, 1)
    assert ledger.pods[key].drops[DENIED] == 13
