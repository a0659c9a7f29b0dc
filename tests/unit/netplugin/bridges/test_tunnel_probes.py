"""Probes of tunnels are judged: what is lost, what only came late, and what says nothing."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address

import pytest

from core.ids import HostLabel
from netplugin.bridges.tunnel_probes import (
    COUNTS,
    DOUBTFUL,
    EVERYBODY,
    LONG,
    PERIOD,
    SILENT,
    UNHEARD,
    WAIT,
    WINDOW,
    TunnelRecord,
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
        (range(0, 100, 25), ""),
        (range(0, 100, 20), "5 of 50 short packets were lost"),
        (range(40, 60), ""),  # a restart
        ([*range(40, 50), *range(60, 70)], ""),
        ([*range(40, 42), *range(50, 52), *range(60, 62)], "3 of 50 short packets were lost"),
    ],
)
def test_loss_is_what_is_lost_again_and_again(lost: Iterable[int], told: str) -> None:
    fault = history(lost).fault(SIZE)
    assert fault.startswith(told)
    assert bool(fault) is bool(told)


def test_a_few_probes_say_nothing_of_a_share() -> None:
    assert history((0, 4, 8), 16).fault(SIZE) == ""
    assert history((0, 4, 8), 17).fault(SIZE) != ""


def test_long_packets_that_were_lost_are_no_loss_once_they_pass() -> None:
    assert history(range(1, 90, 2)).fault(SIZE) == ""


def test_what_was_lost_long_ago_is_forgotten() -> None:
    record, told = history(range(0, 100, 20)), []
    assert record.fault(SIZE)
    for number in range(WINDOW, 2 * WINDOW):
        record.sent(number, long=bool(number % 2), at=float(number))
        record.answered(number, number + 0.001)
        record.judge(number + WAIT)
        told.append(record.fault(SIZE).partition(" short")[0])
    # one after the other leaves the window, of which half are short
    assert list(dict.fromkeys(told)) == ["4 of 50", "3 of 50", ""]


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


@pytest.mark.parametrize(("lost", "doubtful"), [(DOUBTFUL, True), (DOUBTFUL - 1, False)])
def test_what_comes_by_a_tunnel_is_counted_from_the_second_loss_on(
    lost: int, doubtful: bool
) -> None:
    assert history(range(WINDOW - lost, WINDOW)).is_doubtful is doubtful


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
