"""Probes of tunnels are judged: what is lost, what only came late, and what says nothing."""

from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address
from random import Random
from statistics import median
from typing import Final

import pytest

from core.ids import HostLabel
from netplugin.bridges.vxlan.tunnel_probes import (
    BURST,
    COUNTS,
    EVERYBODY,
    LONG,
    LONG_IN_TRAIN,
    LOOK,
    PERIOD,
    SILENT,
    SPAN,
    STEP,
    SUSPECT,
    TRAIN,
    TRAIN_AGAIN,
    UNHEARD,
    WAIT,
    WINDOW,
    TunnelRecord,
    period,
    probed,
    silence,
)

SIZE = 1450


def history(lost: Iterable[int], count: int = WINDOW, *, heard: bool = True) -> TunnelRecord:
    """Return the record of so many probes, of which some were lost; every second one is long."""
    record, gone = TunnelRecord(0.0), set(lost)
    if heard:
        record.sent(-1, long=False, at=-1.0)
        record.answered(-1, -0.999)
    for number in range(count):
        at = number * PERIOD
        record.sent(number, long=bool(number % 2), at=at)
        if number not in gone:
            record.answered(number, at + 0.001)
    record.judge(count * PERIOD + WAIT)
    return record


END = WINDOW * PERIOD + WAIT


def test_a_tunnel_that_passes_all_has_no_fault() -> None:
    record = history(())
    assert (record.fault(SIZE), record.loss, record.is_silent(END)) == ("", 0.0, False)
    assert record.seconds == pytest.approx(0.001)


@pytest.mark.parametrize(("silent", "lost"), [(True, SILENT), (False, SILENT - 1)])
def test_nothing_comes_back(silent: bool, lost: int) -> None:
    record = history(range(WINDOW - lost, WINDOW))
    assert record.is_silent(END) is silent


def test_short_packets_pass_alone() -> None:
    odd = [number for number in range(WINDOW) if number % 2]
    assert "packets of 1450 bytes do not pass" in history(odd[-LONG:]).fault(SIZE)
    assert history(odd[-LONG + 1 :]).fault(SIZE) == ""


def test_a_pause_of_the_other_switch_is_no_fault_of_long_packets() -> None:
    # the one probe after it, a short one, has passed
    paused = range(WINDOW - 2 * LONG + 1, WINDOW)
    record = history(paused, WINDOW + 1)
    assert not record.is_silent(END + 1)
    assert "bytes do not pass" not in record.fault(SIZE)


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (range(0, WINDOW, 64), ""),
        (range(0, WINDOW, 50), "5 of 125 short packets were lost"),
        (range(40, 60), ""),  # a restart
        ([*range(40, 50), *range(60, 70)], ""),
        ([*range(40, 42), *range(50, 52), *range(60, 70), 80], ""),
        ([*range(40, 42), *range(50, 52), *range(60, 64), 80, 90], "6 of 125 short packets"),
    ],
)
def test_loss_is_what_is_lost_again_and_again(lost: Iterable[int], told: str) -> None:
    fault = history(lost).fault(SIZE)
    assert fault.startswith(told)
    assert bool(fault) is bool(told)


def test_heavy_loss_needs_few_probes() -> None:
    assert history((0, 4, 8, 12), 17).fault(SIZE) == ""
    assert history((0, 4, 8, 12, 16), 17).fault(SIZE) != ""


def test_long_packets_that_were_lost_are_no_loss_once_they_pass() -> None:
    assert history(range(1, 90, 2)).fault(SIZE) == ""


def test_what_was_lost_long_ago_is_forgotten() -> None:
    record, told = history(range(10, WINDOW, 50)), []
    assert record.fault(SIZE)
    for number in range(WINDOW, 2 * WINDOW):
        record.sent(number, long=bool(number % 2), at=float(number))
        record.answered(number, number + 0.001)
        record.judge(number + WAIT)
        told.append(record.fault(SIZE).partition(" short")[0])
    # one after the other leaves the window, of which half are short
    assert list(dict.fromkeys(told)) == ["5 of 125", ""]


def test_what_comes_late_is_not_lost() -> None:
    record = history(range(WINDOW - SILENT, WINDOW))
    assert record.is_silent(END)
    for number in range(WINDOW - SILENT, WINDOW):
        record.answered(number, number * PERIOD + 10)
    assert not record.is_silent(END)
    assert record.loss == 0.0


def test_a_peer_that_never_answered_may_be_about_to_start() -> None:
    record = history(range(WINDOW), heard=False)
    assert not record.is_silent(UNHEARD - 1)
    assert record.is_silent(UNHEARD)


def test_what_was_forgotten_is_not_lost() -> None:
    record = history((), 20)
    record.sent(20, long=True, at=20.0)
    record.forget_waiting()
    record.judge(100.0)
    assert record.loss == 0.0


def test_an_answer_to_nothing_is_passed_over() -> None:
    record = TunnelRecord(0.0)
    record.answered(7, 1.0)
    assert (record.seconds, record.loss) == (None, 0.0)


@pytest.mark.parametrize("count", [2, EVERYBODY])
def test_all_of_a_small_cluster_are_probed(count: int) -> None:
    hosts = {HostLabel(f"h{number}") for number in range(count)}
    for host in hosts:
        assert probed(host, dict.fromkeys(hosts - {host})) == hosts - {host}


@pytest.mark.parametrize("count", [EVERYBODY + 1, 200, 1000])
def test_in_a_large_cluster_few_are_probed_from_both_ends_and_all_are_reached(count: int) -> None:
    hosts = {HostLabel(f"h{number}") for number in range(count)}
    of = {host: probed(host, dict.fromkeys(hosts - {host})) for host in hosts}
    assert max(map(len, of.values())) <= 2 * count.bit_length()
    assert all(host in of[peer] for host, peers in of.items() for peer in peers)
    reached, fresh = {HostLabel("h0")}, [HostLabel("h0")]
    while fresh:
        new = of[fresh.pop()] - reached
        reached |= new
        fresh += new
    assert reached == hosts


def test_a_peer_is_doubtful_from_the_first_answer_that_is_missed_or_lost() -> None:
    assert not history(()).is_doubtful(END)
    assert history([WINDOW - 1]).is_doubtful(END)
    record = history([WINDOW - 2])
    assert record.is_doubtful(END)
    for _ in range(TRAIN):
        assert record.is_doubtful(END)
        assert record.next_in_train(END) is not None
    assert not record.is_doubtful(END), "its train is over"
    record = history(())
    record.sent(WINDOW, long=False, at=END)
    assert not record.is_doubtful(END + SUSPECT - 0.01)
    assert record.is_doubtful(END + SUSPECT)
    record.answered(WINDOW, END + SUSPECT)
    assert not record.is_doubtful(END + SUSPECT)


@pytest.mark.parametrize(
    ("peers", "seconds"), [(0, 0.2), (1, 0.2), (20, 0.2), (49, 0.49), (100, 1.0), (1000, 1.0)]
)
def test_few_peers_are_probed_more_often(peers: int, seconds: float) -> None:
    assert period(peers) == seconds


# -- trains ----------------------------------------------------------------------------------------

Link = Callable[[float, bool], float | None]
"""Returns the seconds to the answer of a probe by its moment and whether it is long, or None."""
BROKEN: Final = 20.3
"""The moment at which links of these tests break."""


def told(link: Link, seconds: float, *, trains: bool = True, peers: int = 1) -> dict[str, float]:
    """Probe as `TunnelProbes` does; return what was told, with the seconds since the break.

    The first answer of each probe is heard at the next step.
    """
    record, coming, found = TunnelRecord(0.0), list[tuple[float, int]](), dict[str, float]()
    number, looked, probed_at, long_at = 0, 0.0, -PERIOD, -PERIOD
    for tick in range(int(seconds / STEP)):
        now = tick * STEP
        for at, one in [each for each in coming if each[0] <= now]:
            record.answered(one, at)
        coming = [each for each in coming if each[0] > now]
        sending = list[bool]()
        if now - probed_at >= period(peers) - STEP / 2:
            long = now - long_at >= PERIOD - STEP / 2
            probed_at, long_at = now, now if long else long_at
            sending += [long, *[False] * (BURST - 1)]
        in_train = record.next_in_train(now) if trains else None
        if in_train is not None:
            sending.append(in_train)
        for kind in sending:
            number += 1
            record.sent(number, long=kind, at=now)
            took = link(now, kind)
            if took is not None:
                coming.append((now + took, number))
        if now - looked >= (LOOK if record.is_doubtful(now) else PERIOD):
            looked = now
            record.judge(now)
            fault = "silent" if record.is_silent(now) else record.fault(SIZE).partition(":")[0]
            if fault:
                found.setdefault(fault.lstrip("0123456789 of"), now - BROKEN)
    return found


@pytest.mark.parametrize("peers", [1, 49])
def test_what_is_blocked_is_told_soon(peers: int) -> None:
    def link(at: float, _long: bool) -> float | None:
        return 0.001 if at < BROKEN else None

    (seconds,) = told(link, 40, peers=peers).values()
    assert seconds < period(peers) + SPAN + WAIT + 2 * LOOK


def test_a_path_that_carries_short_packets_alone_is_told_soon() -> None:
    found = told(lambda at, long: None if long and at >= BROKEN else 0.001, 40)
    ((what, seconds),) = found.items()
    assert "bytes do not pass" in what
    assert seconds < 2 * PERIOD + SPAN + WAIT + 2 * LOOK


@pytest.mark.parametrize("pause", [0.4, 1.0, 2.0, 4.0])
def test_a_pause_of_the_other_switch_is_not_told(pause: float) -> None:
    ended = BROKEN + pause
    assert told(lambda at, _: ended - at + 0.001 if BROKEN <= at < ended else 0.001, 120) == {}


@pytest.mark.parametrize("outage", [0.4, 1.0, 2.0])
def test_an_outage_that_ends_soon_is_not_told(outage: float) -> None:
    assert told(lambda at, _: None if BROKEN <= at < BROKEN + outage else 0.001, 120) == {}


def lossy(seed: int, share: float) -> Link:
    chance = Random(seed)
    return lambda at, _: None if at >= BROKEN and chance.random() < share else 0.001


def seconds_to(share: float, seeds: int, *, peers: int = 1, trains: bool = True) -> list[float]:
    """Return the seconds after which a host has told a loss, 40 for one it has not, sorted."""
    return sorted(
        min(told(lossy(seed, share), 45, peers=peers, trains=trains).values(), default=40.0)
        for seed in range(seeds)
    )


def test_five_percent_are_told_within_ten_seconds_in_99_of_100_cases() -> None:
    times = seconds_to(0.05, 200)
    assert sum(one <= 9.5 for one in times) >= 198


def test_five_percent_are_told_later_where_there_are_many_peers() -> None:
    times = seconds_to(0.05, 40, peers=49)
    assert median(times) < 12
    assert median(times) < median(seconds_to(0.05, 40, peers=49, trains=False)) / 1.5


def test_heavy_loss_is_told_soon() -> None:
    assert median(seconds_to(0.3, 40)) < 4


def test_a_loss_of_one_in_a_thousand_is_not_told() -> None:
    assert [told(lossy(seed, 0.001), 320) for seed in range(20)] == [{}] * 20


def test_a_train_is_not_sent_again_at_once_and_never_to_whom_nobody_has_heard() -> None:
    record = TunnelRecord(0.0)
    record.sent(1, long=False, at=0.0)
    assert record.next_in_train(SUSPECT) is None
    record.answered(1, 0.1)
    record.sent(2, long=False, at=1.0)
    assert record.next_in_train(1.0 + SUSPECT - 0.01) is None
    kinds = [record.next_in_train(1.0 + SUSPECT) for _ in range(TRAIN + 1)]
    long = TRAIN // LONG_IN_TRAIN
    assert (kinds.count(True), kinds.count(False), kinds[-1]) == (long, TRAIN - long, None)
    assert record.next_in_train(1.0 + SUSPECT + TRAIN_AGAIN - 0.1) is None
    assert record.next_in_train(1.0 + SUSPECT + TRAIN_AGAIN) is not None


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((), "between the hosts, both ways"),
        ([7] * (COUNTS - 1), "between the hosts, both ways"),
        ([7] * COUNTS, "let UDP 4789 pass from it to this host"),
        ([7] * (COUNTS - 1) + [8], "let UDP 4789 pass from this host to it"),
    ],
)
def test_silence_is_told_with_the_way_that_is_cut(counts: Sequence[int], told: str) -> None:
    assert told in silence(IPv4Address("192.0.2.2"), 4789, counts)
