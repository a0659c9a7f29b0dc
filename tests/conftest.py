"""Fixtures of the test bed: private directories, namespaces, etcd and Open vSwitch.

What a fixture starts is registered with the janitor, so that nothing is left behind even by a run
that is killed.
"""

import itertools
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import pytest
from hypothesis import settings

from tests.bed.cluster import Bed, networked
from tests.bed.daemon import LOG_TAIL, Daemon
from tests.bed.janitor import Janitor, detach_mounts, process_janitor
from tests.bed.netns import Namespace, fresh_name
from tests.bed.ovs import OvsHost
from tests.bed.selection import beyond_pairs
from tests.bed.store import STORES, Store
from tests.bed.waiting import PATIENCE

D = TypeVar("D", bound=Daemon)

DIRECTORIES: Final = Path(f"/run/contiv-test-{os.getpid()}")

# how long an example takes says nothing on a busy machine; the same examples each time judge what
# was changed, and `make explore` looks for others
settings.register_profile("bed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("bed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run choose its store, and one of both shares of the tests."""
    parser.addoption("--store", choices=list(STORES), default="etcd", help="the store to run on")
    parser.addoption(
        "--share",
        choices=["usual", "thorough"],
        help="what `make test` runs, or what `make test-thorough` adds; all without",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs a store on the one chosen, unless it is marked for certain ones."""
    if "store_kind" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("stores")
        kinds = marked.args if marked else (metafunc.config.getoption("--store"),)
        metafunc.parametrize("store_kind", kinds, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the tests of the share asked for; give each as much longer as everything else."""
    if share := config.getoption("--share"):
        added = _thorough(items)
        asked = share == "thorough"
        config.hook.pytest_deselected(items=[one for one in items if (one in added) is not asked])
        items[:] = [one for one in items if (one in added) is asked]
    usual = config.getoption("timeout") or float(config.getini("timeout"))
    for item in items if PATIENCE != 1 else ():
        marked = item.get_closest_marker("timeout")
        seconds = marked.args[0] if marked else usual
        item.add_marker(pytest.mark.timeout(seconds * PATIENCE), append=False)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a part of the tests have nothing of a share: it is no failure then that none ran."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("--share"):
        session.exitstatus = pytest.ExitCode.OK


def _thorough(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return what `make test-thorough` adds of some tests (`tests.bed.selection`)."""
    added = {item for item in items if item.get_closest_marker("thorough")}
    combined = defaultdict[tuple[Path, str], list[pytest.Function]](list)
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        if item.get_closest_marker("system"):
            combined[item.path, item.originalname].append(item)
    for tests in combined.values():
        tried = [{name: repr(one) for name, one in it.callspec.params.items()} for it in tests]
        added.update(tests[number] for number in beyond_pairs(tried))
    return added


@pytest.fixture(scope="session")
def janitor() -> Iterator[Janitor]:
    """Remove, at the end of this run or its death, what is registered with it."""
    if os.geteuid() != 0:
        pytest.fail("the test bed makes network namespaces: run as root")
    janitor = process_janitor()
    yield janitor
    janitor.close()


@pytest.fixture(scope="module", autouse=True)
def emptied() -> Iterator[None]:
    """Remove the directories of a module's tests: an etcd takes 120 MB, and /run is small.

    First of all fixtures of a module, so that all others have ended. None outlives its module.
    """
    yield
    for directory in DIRECTORIES.glob("*"):
        detach_mounts(directory)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def bed_dirs(janitor: Janitor) -> Iterator[Path]:
    """Where this run's directories are: short, for unix socket paths end at 107 characters."""
    janitor.watch_dir(DIRECTORIES)
    DIRECTORIES.mkdir()
    return (DIRECTORIES / str(number) for number in itertools.count(1))


@pytest.fixture
def bed_dir(bed_dirs: Iterator[Path]) -> Path:
    """Give a private empty directory."""
    return _made(bed_dirs)


@pytest.fixture(scope="session")
def store_kind(request: pytest.FixtureRequest) -> str:
    """Say which store the tests run on; see `pytest_generate_tests`."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def new_store(store_kind: str, bed_dirs: Iterator[Path]) -> Callable[[], Store]:
    """Give a maker of empty stores that do not run yet."""
    return lambda: STORES[store_kind](_made(bed_dirs))


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Iterator[Store]:
    """Run an empty store."""
    with _running(new_store()) as store:
        yield store


@pytest.fixture(scope="module")
def store_session(new_store: Callable[[], Store]) -> Iterator[Store]:
    """Run a store that the tests of a module share; use names of your own per test."""
    with _running(new_store()) as store:
        yield store


@pytest.fixture
def ovs(bed_dirs: Iterator[Path]) -> Iterator[OvsHost]:
    """Run an Open vSwitch without bridges, in a fresh namespace."""
    with _running_ovs(_made(bed_dirs)) as ovs:
        yield ovs


@pytest.fixture(scope="module")
def ovs_module(bed_dirs: Iterator[Path]) -> Iterator[OvsHost]:
    """Run an Open vSwitch that the tests of a module share; use a bridge per test."""
    with _running_ovs(_made(bed_dirs)) as ovs:
        yield ovs


@pytest.fixture
def bed(bed_dir: Path, store_kind: str) -> Iterator[Bed]:
    """Run the whole system on two hosts, with a network `default-net` (10.20.0.0/16)."""
    with networked(Bed(bed_dir, store=store_kind)) as bed:
        yield bed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show, with a failed test, what its cluster's daemons said last, and what its switches do."""
    report = yield
    bed = getattr(item, "funcargs", {}).get("bed")
    if report.failed and isinstance(bed, Bed):
        report.sections += [
            (f"{log.relative_to(bed.dir)}", log.read_text(errors="replace")[-LOG_TAIL:])
            for log in bed.logs()
        ]
        report.sections += [(f"{host.label} datapath", host.ovs.state()) for host in bed.hosts]
    return report


def _made(directories: Iterator[Path]) -> Path:
    directory = next(directories)
    directory.mkdir()
    return directory


@contextmanager
def _running(daemon: D) -> Iterator[D]:
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.kill()


@contextmanager
def _running_ovs(directory: Path) -> Iterator[OvsHost]:
    namespace = Namespace(fresh_name("ovs")).create()
    ovs = OvsHost(namespace, directory)
    try:
        yield ovs.start()
    finally:
        ovs.kill()
        namespace.delete()
