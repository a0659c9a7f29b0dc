"""Sums of groups never go back, whatever pods come and go, and have all that links counted."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from core.ids import EndpointKey
from netplugin.pod_metrics.ledger import (
    Account,
    Direction,
    DropKind,
    Group,
    Ledger,
    PodTraffic,
    PresentPod,
)
from state.flow_records import EndNames

PODS = range(5)
KINDS = [DropKind(way, why) for way in Direction for why in ("policy", "no-route")]


def group_of(number: int) -> Group:
    return Group("t", "n", f"g{number % 2}")


def pod(number: int) -> PresentPod:
    tenant, network, group = group_of(number)
    names = EndNames(tenant=tenant, network=network, group=group, container=str(number))
    return PresentPod(names, (f"vvport{number}",))


counts = st.integers(0, 99)
looks = st.lists(
    st.tuples(
        st.sets(st.sampled_from(PODS)),  # which pods are there
        st.dictionaries(
            st.sampled_from(PODS), st.builds(PodTraffic, counts, counts, counts, counts)
        ),
        st.sets(st.sampled_from(PODS)),  # whose links are made anew
        st.lists(
            st.tuples(st.sampled_from(PODS), st.sampled_from(KINDS), counts, st.booleans()),
            max_size=4,
        ),
    ),
    max_size=20,
)


def plus(one: PodTraffic, other: PodTraffic) -> PodTraffic:
    return PodTraffic(*map(sum, zip(one, other, strict=True)))


@given(looks)
def test_sums_of_groups_never_go_back(
    taken: list[
        tuple[set[int], dict[int, PodTraffic], set[int], list[tuple[int, DropKind, int, bool]]]
    ],
) -> None:
    ledger = Ledger({}, 0)
    links: dict[str, PodTraffic] = {}
    before: dict[Group, Account] = {}
    for now, (there, passed, anew, drops) in enumerate(taken):
        for number in anew:
            links.pop(f"vvport{number}", None)
        for number, traffic in passed.items():
            name = f"vvport{number}"
            links[name] = plus(links.get(name, PodTraffic()), traffic)
        for number, kind, packets, told in drops:
            take = ledger.report if told else ledger.count
            take(EndpointKey(str(number)), pod(number), kind, packets)
        ledger.take({EndpointKey(str(one)): pod(one) for one in there}, dict(links), float(now))
        for group, was in before.items():
            found = ledger.groups[group]
            assert all(new >= old for new, old in zip(found.traffic, was.traffic, strict=True))
            assert all(found.drops[kind] >= count for kind, count in was.drops.items())
        before = {
            group: Account(one.traffic, Counter(one.drops)) for group, one in ledger.groups.items()
        }
        assert set(ledger.pods) == {str(one) for one in there}
        for key, one in ledger.pods.items():
            of_all = ledger.groups[group_of(int(key))].traffic
            assert all(part <= whole for part, whole in zip(one.traffic, of_all, strict=True))


@given(st.lists(st.tuples(st.sampled_from(PODS), counts), max_size=30))
def test_with_every_pod_there_its_group_has_all_that_links_counted(
    passed: list[tuple[int, int]],
) -> None:
    ledger, links = Ledger({}, 0), {f"vvport{number}": PodTraffic() for number in PODS}
    total: Counter[Group] = Counter()
    here = {EndpointKey(str(one)): pod(one) for one in PODS}
    ledger.take(here, dict(links), 0)
    for number, size in passed:
        name = f"vvport{number}"
        links[name] = plus(links[name], PodTraffic(sent_bytes=size))
        total[group_of(number)] += size
        ledger.take(here, dict(links), 1)
    for group, account in ledger.groups.items():
        assert account.traffic.sent_bytes == total[group]
