"""What TLS costs: createEndpoint/s and rules/s with TLS beside plain HTTP, 16 keep-alive clients.

The clients and the requests are those of `bench.endpoints` and `bench.rules`. Plain and TLS take
turns on a fresh netmaster and etcd each, so that what else the machine does meets both alike.

Measured once, on two cores with a load of 20: 137 endpoints/s with TLS, 374 without (0.37); 238
rules/s with TLS, 493 without (0.48). Clients, netmaster and etcd share these cores, so that what
encrypts on both sides counts. On a quiet machine all of it is faster; the ratio is what to compare.
"""

import statistics
from collections.abc import Iterable

from bench import endpoints, rules
from bench.netmaster import Measure, on_a_netmaster
from bench.table import Row, show

TURNS = 3


def rows() -> Iterable[Row]:
    """Measure both kinds of requests."""
    yield _row("createEndpoint with TLS", endpoints.created_per_second)
    yield _row("rules posted with TLS", rules.posted_per_second)


def _row(what: str, measure: Measure[float]) -> Row:
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TURNS):
        for secure in (False, True):
            rates[secure].append(on_a_netmaster(measure, secure=secure))
    plain, secured = (statistics.median(rates[secure]) for secure in (False, True))
    return Row(
        what=what,
        ours=secured,
        unit="1/s",
        reference=plain,
        ratio=secured / plain,
        note=f"median of {TURNS}; reference: the same without TLS, in turns",
    )


if __name__ == "__main__":
    show(rows())
