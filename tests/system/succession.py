"""A netmaster that is killed and succeeded, again and again, on one store.

In come a store and a directory; `leading` runs the master, `succeed` starts the next one. What the
leader has in the store is told by `stored`. Who kills it, and when, is the tests' business.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from core import keys
from netmaster import codec
from tests.bed.master import Master
from tests.bed.store import Store
from tests.property.subjects import Request


@contextmanager
def leading(store: Store, directory: Path) -> Iterator[Master]:
    """Run a master; nothing unforeseen may be in its log at the end."""
    master = Master(directory, store)
    master.start()
    try:
        yield master
    finally:
        master.kill()
    assert "internal error" not in master.log_text()
    assert "Traceback" not in master.log_text()


def succeed(master: Master, store: Store) -> None:
    """Start the next leader; the dead one's lock goes, as it would at the end of its lease."""
    store.delete(keys.LEADER_LOCK)
    master.start()


def stored(store: Store) -> Mapping[str, bytes]:
    """Return what the leader has in the store."""
    found = store.entries(keys.ROOT)
    return {key: value for key, value in found.items() if codec.is_leaders(key)}


def send(master: Master, *requests: Request) -> None:
    """Have requests answered as they should be."""
    for request in requests:
        answer = master.ask(request.method, request.path, request.body)
        assert answer.status == request.status, (request, answer.text)
