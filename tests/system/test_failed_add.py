"""An ADD that fails says why in time, in the words of the CNI specification, and leaves nothing.

Nothing: no address or record at netmaster or in the store, no link, no switch port, no flow, no
journal file on any host.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bed.cluster import Bed
from tests.bed.etcd import Etcd
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import IFNAME, Sandbox, new_sandbox
from tests.bed.waiting import eventually
from tests.system.footprint import Footprint, eventually_same, steady

pytestmark = [pytest.mark.system]

TRY_AGAIN_LATER = 11
IO_FAILURE = 5
INVALID_CONFIG = 7
EXHAUSTED = 102


@pytest.fixture(scope="module", autouse=True)
def networks(bed: Bed) -> None:
    """Make networks on which an ADD cannot work, and a pod that already runs."""
    bed.netctl("net", "create", "--subnet=10.70.0.0/30", "--gateway=10.70.0.1", "tiny")
    bed.add_pod(bed.hosts[0], "last", network="tiny")
    bed.add_pod(bed.hosts[1], "peer")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Make a pod's sandbox that is without network."""
    sandbox = new_sandbox("p", Namespace(fresh_name("p")))
    yield sandbox
    sandbox.namespace.delete()


@pytest.fixture
def before(bed: Bed) -> Footprint:
    """Take the footprint that must be the same afterwards."""
    return steady(bed)


def refused(
    bed: Bed, sandbox: Sandbox, conf: dict[str, Any] | None = None, *, netns: str | None = None
) -> dict[str, Any]:
    """Run an ADD that must fail; its error object, which must be one."""
    netns = str(sandbox.namespace.path) if netns is None else netns
    done = bed.runtime.call(
        "ADD", bed.hosts[0], conf or bed.conf(bed.hosts[0]), sandbox, netns=netns
    )
    assert done.returncode == 1, done.stdout
    error: dict[str, Any] = json.loads(done.stdout)
    assert error.keys() == {"cniVersion", "code", "msg", "details"}
    assert error["cniVersion"] == "1.0.0"
    assert error["msg"]
    assert error["details"]
    return error


def works_again(bed: Bed, sandbox: Sandbox) -> None:
    """See that the same ADD now works, as the runtime's next attempt."""
    pod = bed.runtime.add(bed.hosts[0], bed.conf(bed.hosts[0]), sandbox)
    bed.pods.append(pod)
    peer = next(pod for pod in bed.pods if pod.name == "peer")
    eventually(lambda: pod.ping(peer.address), "the pod reaches another")
    bed.delete_pod(pod)


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        ({"network": "nowhere"}, (INVALID_CONFIG, "nowhere")),
        ({"tenant": "nobody"}, (INVALID_CONFIG, "nobody")),
        ({"group": "nogroup"}, (INVALID_CONFIG, "nogroup")),
        ({"network": "tiny"}, (EXHAUSTED, "10.70.0.0/30")),
    ],
    ids=["no network", "no tenant", "no group", "no address left"],
)
def test_a_network_that_cannot_be_had(
    placed: dict[str, str],
    expected: tuple[int, str],
    bed: Bed,
    sandbox: Sandbox,
    before: Footprint,
) -> None:
    error = refused(bed, sandbox, bed.conf(bed.hosts[0], **placed))
    eventually_same(bed, before)
    code, reason = expected
    assert error["code"] == code
    assert reason in error["details"]


@pytest.mark.parametrize(
    "path",
    [
        lambda _bed, directory: directory / "missing",
        lambda _bed, directory: _file(directory / "file"),
        lambda _bed, directory: directory,
        lambda bed, _directory: bed.hosts[0].namespace.path,
    ],
    ids=["missing", "a file", "a directory", "the host's own"],
)
def test_a_namespace_that_is_none(
    path: Callable[[Bed, Path], Path],
    bed: Bed,
    bed_dir: Path,
    sandbox: Sandbox,
    before: Footprint,
) -> None:
    netns = str(path(bed, bed_dir))
    error = refused(bed, sandbox, netns=netns)
    eventually_same(bed, before)
    assert error["code"] == IO_FAILURE
    assert netns in error["details"]


def _file(path: Path) -> Path:
    path.write_text("no namespace")
    return path


def test_an_interface_name_that_is_taken(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    inside = sandbox.namespace
    inside.run(["ip", "link", "add", IFNAME, "type", "bridge"])
    error = refused(bed, sandbox)
    eventually_same(bed, before)
    assert error["code"] == IO_FAILURE
    assert IFNAME in error["details"]
    assert IFNAME in inside.run(["ip", "link"]).stdout, "what was there is still there"
    inside.run(["ip", "link", "delete", IFNAME])
    works_again(bed, sandbox)


def test_without_netmaster(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    bed.netmaster.kill()
    try:
        error = refused(bed, sandbox)
    finally:
        bed.netmaster.start()
    assert error["code"] == TRY_AGAIN_LATER
    eventually_same(bed, before)
    works_again(bed, sandbox)


@contextmanager
def frozen(daemon: Any) -> Iterator[None]:
    """Freeze a process for the body."""
    daemon.pause()
    try:
        yield
    finally:
        daemon.resume()


def test_while_netmaster_is_frozen(bed: Bed, before: Footprint) -> None:
    # netmaster will find both the request and its withdrawal when it wakes, in any order
    sandboxes = [new_sandbox(f"p{n}", Namespace(fresh_name(f"p{n}"))) for n in range(8)]
    try:
        with frozen(bed.netmaster), ThreadPoolExecutor(len(sandboxes)) as pool:
            errors = list(pool.map(lambda sandbox: refused(bed, sandbox), sandboxes))
        assert {error["code"] for error in errors} == {TRY_AGAIN_LATER}
        bed.netmaster.await_ready()
        eventually_same(bed, before)
        works_again(bed, sandboxes[0])
    finally:
        for sandbox in sandboxes:
            sandbox.namespace.delete()


def test_while_the_store_is_frozen(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    with frozen(bed.store):
        error = refused(bed, sandbox)
    assert error["code"] == TRY_AGAIN_LATER
    bed.netmaster.await_ready()
    eventually_same(bed, before)
    works_again(bed, sandbox)


def test_without_a_store(bed: Bed, before: Footprint) -> None:
    sandboxes = [new_sandbox(f"p{n}", Namespace(fresh_name(f"p{n}"))) for n in range(3)]
    try:
        bed.store.kill()
        try:
            errors = [refused(bed, sandbox) for sandbox in sandboxes]
        finally:
            bed.store.start()
        assert {error["code"] for error in errors} == {TRY_AGAIN_LATER}
        bed.netmaster.await_ready()
        eventually_same(bed, before)
        works_again(bed, sandboxes[0])
    finally:
        for sandbox in sandboxes:
            sandbox.namespace.delete()


def test_a_full_store_says_what_to_do(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    store = bed.store
    if not isinstance(store, Etcd):
        pytest.skip("consul has no such alarm")
    store.alarm("ACTIVATE")
    try:
        error = refused(bed, sandbox)
    finally:
        store.alarm("DEACTIVATE")
    assert error["code"] == TRY_AGAIN_LATER
    assert "etcdctl alarm disarm" in error["details"]
    eventually_same(bed, before)
    works_again(bed, sandbox)


@pytest.mark.usefixtures("line")
def test_while_the_switch_is_frozen(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    with frozen(bed.hosts[0].ovs.vswitchd):
        error = refused(bed, sandbox)
    assert error["code"] == TRY_AGAIN_LATER
    assert "netmaster" not in error["details"]
    eventually_same(bed, before)
    works_again(bed, sandbox)


def test_while_the_switch_database_is_frozen(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    with frozen(bed.hosts[0].ovs.server):
        error = refused(bed, sandbox)
    assert error["code"] == TRY_AGAIN_LATER
    eventually_same(bed, before)
    works_again(bed, sandbox)


def test_a_runtime_that_gives_up_and_deletes(bed: Bed, sandbox: Sandbox, before: Footprint) -> None:
    # kubelet deletes whatever an ADD said, and a second time when the pod is cleaned up
    refused(bed, sandbox, bed.conf(bed.hosts[0], network="nowhere"))
    for netns in (str(sandbox.namespace.path), ""):
        done = bed.runtime.call("DEL", bed.hosts[0], bed.conf(bed.hosts[0]), sandbox, netns=netns)
        assert (done.returncode, done.stdout) == (0, "")
    eventually_same(bed, before)
