"""Many clients at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.bed.waiting import WITHIN


def on_all_clients(clients: int, work: Callable[[int], None]) -> None:
    """Run `work(n)` on so many threads, which start at once; raise the first failure."""
    ready = threading.Barrier(clients)

    def client(number: int) -> None:
        ready.wait(WITHIN)
        work(number)

    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(client, number) for number in range(clients)]:
            done.result(WITHIN)
