"""A port that could not be added is due soon, then later and later, until it has been added."""

from netplugin.bridges.vxlan.port_retries import PACE, PortRetries
from netplugin.ovsdb import PortRow
from tests.unit.netplugin.port_rows import port_row


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def row(ofport: int | None, name: str = "vxif1") -> PortRow:
    error = "File exists" if ofport == -1 else None
    return port_row(name, type="vxlan", ofport=ofport, error=error)


def test_attempts_become_rare() -> None:
    clock = Clock()
    retries = PortRetries(clock)
    waits: list[float] = []
    for _ in range(10):
        retries.observe([row(-1)])
        wait = retries.next_due()
        assert wait is not None
        waits.append(wait)
        assert not retries.take("vxif1")
        clock.now += wait
        assert retries.next_due() == 0.0
        assert retries.take("vxif1")
        assert not retries.take("vxif1"), "one attempt each time"
    assert 0.75 * PACE.first <= waits[0] <= PACE.first
    assert waits[0] < waits[1] < waits[2]
    assert 0.75 * PACE.longest <= waits[-1] <= PACE.longest


def test_other_changes_do_not_postpone_an_attempt() -> None:
    clock = Clock()
    retries = PortRetries(clock)
    retries.observe([row(-1)])
    due = retries.next_due()
    assert due is not None
    clock.now = due / 2
    retries.observe([row(-1), row(7, "vxif2")])
    assert retries.next_due() == due / 2


def test_a_port_that_is_added_or_gone_is_forgotten() -> None:
    for rows in ([row(9)], []):
        clock = Clock()
        retries = PortRetries(clock)
        for _ in range(5):
            retries.observe([row(-1)])
            clock.now += retries.next_due() or 0.0
            assert retries.take("vxif1")
        retries.observe([row(-1)])
        retries.observe(rows)
        assert retries.next_due() is None
        retries.observe([row(-1)])
        assert (retries.next_due() or 0.0) <= PACE.first, "it begins anew"


def test_a_port_that_the_switch_has_not_looked_at_has_not_failed() -> None:
    retries = PortRetries(Clock())
    retries.observe([row(None)])
    assert retries.next_due() is None
