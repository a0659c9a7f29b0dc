"""An agent and its store: it waits for one that is late, and ends with what to do at a wrong one.

Nothing of a host is touched before the store has answered, so a directory stands for the host.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core import keys
from objdb.api import Change, Put
from state import schema
from state.schema import OLDEST, VERSION, SchemaStamp
from tests.bed.daemon import Daemon
from tests.bed.master import MODES
from tests.bed.netns import free_port
from tests.bed.page import Page
from tests.bed.secured import with_acl
from tests.bed.store import Store, client
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store

on_both = pytest.mark.stores("etcd", "consul")
PROGRAM = Path(sys.executable).with_name("netplugin")


@contextmanager
def agent_on(directory: Path, kind: str, url: str) -> Iterator[Daemon]:
    """Run an agent of a host without Open vSwitch."""
    agent = Daemon(
        [
            *(str(PROGRAM), *MODES, f"--{kind}", url),
            *("--host", "h1", "--ctrl-ip", "127.0.0.1", "--vtep-ip", "127.0.0.1"),
            *("--run-dir", str(directory), "--data-dir", str(directory / "data")),
            *("--ovsdb", f"unix:{directory / 'none.sock'}"),
            *("--cni-socket", str(directory / "cni.sock"), "--rest-address", "127.0.0.1:0"),
        ],
        log=directory / "agent.log",
        ready=lambda: True,
    )
    agent.spawn()
    try:
        yield agent
    finally:
        agent.kill()


def last_words(directory: Path, kind: str, url: str) -> str:
    """Start an agent that cannot use its store; return the line it ended with."""
    with agent_on(directory, kind, url) as agent:
        eventually(lambda: not agent.running, "the agent ends")
        return agent.log_text().splitlines()[-1]


def says(agent: Daemon, text: str) -> None:
    eventually(lambda: text in agent.log_text(), f"it says: {text}")


@on_both
def test_a_store_that_is_late_is_waited_for(store: Store, bed_dir: Path) -> None:
    store.kill()
    with agent_on(bed_dir, store.kind, store.url) as agent:
        says(agent, "waiting for the store")
        store.start()
        says(agent, "waiting for Open vSwitch")
        assert agent.running


@on_both
@pytest.mark.parametrize(
    ("stamp", "advice"),
    [
        (SchemaStamp(VERSION + 1), "run the newer release that wrote the store"),
        (SchemaStamp(OLDEST - 1), "run an older release"),
    ],
)
async def test_a_store_of_another_release(
    store: Store, bed_dir: Path, stamp: SchemaStamp, advice: str
) -> None:
    backend = client(store)
    await backend.commit([Change((), (Put(keys.SCHEMA, schema.encode(stamp)),))])
    await backend.close()
    assert advice in last_words(bed_dir, store.kind, store.url)


@pytest.mark.parametrize("kind", ["etcd", "consul"])
def test_something_else_at_the_stores_address(kind: str, bed_dir: Path) -> None:
    with Page() as page:
        assert f"is no {kind}" in last_words(bed_dir, kind, page.url)


def test_a_consul_that_asks_for_a_token(bed_dir: Path) -> None:
    consul = with_acl(bed_dir, 'node_prefix "" { policy = "read" }')
    try:
        assert "the token (CONSUL_HTTP_TOKEN) needs" in last_words(bed_dir, "consul", consul.url)
    finally:
        consul.kill()


def test_a_dead_member_beside_a_wrong_one_is_waited_for(bed_dir: Path) -> None:
    """One that may come is worth waiting for."""
    with Page() as page:
        urls = f"{page.url},http://127.0.0.1:{free_port(None)}"
        with agent_on(bed_dir, "etcd", urls) as agent:
            eventually(
                lambda: agent.log_text().count("waiting for the store") > 3,
                "it waits on",
            )
            assert agent.running
