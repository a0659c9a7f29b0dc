"""What runs out or goes wrong below the daemons: store, disks, clocks, certificates.

Nobody needs to be hostile for these. What runs goes on; what cannot be done is refused by name, and
done once the cause is gone, without a restart.
"""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemons.certificates import pem_files
from daemons.certificates.peers import Role
from netmaster.commands import ca
from netmaster.commands.ca import CertificateRequest, KeyPair
from tests.bed.cluster import MASTER, Bed
from tests.bed.daemon import Daemon
from tests.bed.etcd import Etcd
from tests.bed.hosts import Host
from tests.bed.janitor import process_janitor
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.ovs]

Figures = Callable[[str], None]

SMALL = 24 * 1024 * 1024
"""Bytes of a file system that is to be filled."""
RECOVERY = 60.0
CLOCK = Path(__file__).with_name("clock.c")


@pytest.fixture
def secure_bed(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts whose daemons have certificates."""
    with running(next(bed_dirs), secure=True) as bed:
        yield bed


@contextmanager
def running(directory: Path, *, secure: bool = False, start: bool = True) -> Iterator[Bed]:
    directory.mkdir()
    bed = Bed(directory, 2, secure=secure)
    if start:
        bed.start()
    try:
        if start:
            network(bed)
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


def network(bed: Bed) -> None:
    for host in bed.hosts:
        for peer in bed.hosts:
            host.namespace.run(["ping", "-q", "-c", "1", "-W", "5", peer.address])
    bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")


def pair(bed: Bed) -> tuple[Pod, Pod]:
    """Run a pod on each host; they reach each other."""
    one, two = (bed.add_pod(host, f"on-{host.label}") for host in bed.hosts)
    eventually(lambda: one.ping(two.address), "pods reach each other")
    return one, two


def refusal(bed: Bed, host: Host, name: str) -> str:
    """Add a pod, which must fail; return the error's text."""
    try:
        pod = bed.add_pod(host, name)
    except CniFailed as exc:
        return f"{exc.answer.get('msg', '')}; {exc.answer.get('details', '')}"
    bed.delete_pod(pod)
    return ""


def works_again(bed: Bed, host: Host, since: float) -> str:
    """Return in how many seconds a pod could be added again."""
    number = iter(range(1000))
    eventually(
        lambda: not refusal(bed, host, f"again{next(number)}"), "pods are added", within=RECOVERY
    )
    return f"added again after {time.monotonic() - since:.1f} s"


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """Make a directory a small file system of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    process_janitor().watch_dir(directory)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "adversary", directory], check=True
    )
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(directory: Path) -> Path:
    """Use a file system up; return the file to remove."""
    file = directory / "filling"
    with file.open("wb", buffering=0) as sink:
        for size in (1 << 20, 1 << 12, 1):
            block = bytes(size)
            try:
                while sink.write(block) == size:
                    pass
            except OSError:
                continue
    return file


def test_a_store_without_space(bed: Bed, figures: Figures) -> None:
    """The store has no space left (NOSPACE): pods that run go on, others are refused by name."""
    assert isinstance(bed.store, Etcd)
    one, two = pair(bed)
    bed.store.alarm("ACTIVATE")
    try:
        said = eventually(lambda: refusal(bed, bed.hosts[0], "full"), "an ADD is refused")
        assert "space" in said.lower(), said
        assert one.ping(two.address, count=5)
        assert ask(bed, "GET", "/api/v1/networks/").status == 200
    finally:
        bed.store.alarm("DEACTIVATE")
    figures(f"refused: {said[:90]}; {works_again(bed, bed.hosts[0], time.monotonic())}")
    for pod in (one, two):
        bed.delete_pod(pod)


def test_a_full_disk_of_an_agent(bed_dirs: Iterator[Path], figures: Figures) -> None:
    """The disk of an agent's data is full: the same, and its journal stays whole."""
    with running(next(bed_dirs), start=False) as bed, small_disk(bed.hosts[0].dir / "data") as disk:
        bed.start()
        network(bed)
        one, two = pair(bed)
        filling = fill(disk)
        said = eventually(lambda: refusal(bed, bed.hosts[0], "full"), "an ADD is refused")
        assert "space" in said.lower(), said
        assert one.ping(two.address, count=5)
        bed.agents[0].kill()
        bed.agents[0].start()
        assert one.ping(two.address, count=5), "the journal was read again"
        filling.unlink()
        figures(f"refused: {said[:90]}; {works_again(bed, bed.hosts[0], time.monotonic())}")
        bed.delete_pod(one)
        bed.delete_pod(two)


def test_a_full_disk_of_the_store(bed_dirs: Iterator[Path], figures: Figures) -> None:
    """The disk of the store is full: pods go on; all works when there is space again."""
    directory = next(bed_dirs)
    # etcd keeps 64 MB for each file of its log ahead
    with running(directory, start=False) as bed, _disk_of_store(directory, 180) as disk:
        bed.start()
        network(bed)
        one, two = pair(bed)
        filling = fill(disk)
        number, asked = 0, time.monotonic()
        while bed.store.running and time.monotonic() - asked < 30:
            number += 1
            body = {"tenantName": f"t{number}"}
            if ask(bed, "POST", f"/api/v1/tenants/t{number}/", body).status != 200:
                break
        assert one.ping(two.address, count=5)
        filling.unlink()
        since = time.monotonic()
        ended = not bed.store.running
        if ended:
            bed.store.start()
        figures(
            f"{number} changes until it was full; etcd {'ended' if ended else 'lived'}; "
            f"{works_again(bed, bed.hosts[0], since)}"
        )
        bed.delete_pod(one)
        bed.delete_pod(two)
        bed.stop()


@contextmanager
def _disk_of_store(directory: Path, megabytes: int) -> Iterator[Path]:
    data = directory / "etcd-bed"
    data.mkdir(mode=0o700)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "adversary", data],
        check=True,
    )
    try:
        yield data
    finally:
        subprocess.run(["umount", "--lazy", data], check=True)


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build what gives a daemon a clock of its own."""
    library = Path(tmp_path_factory.mktemp("clock")) / "clock.so"
    flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *flags, "-o", library, CLOCK, "-ldl"], check=True)
    return library


@contextmanager
def clock(daemon: Daemon, library: Path) -> Iterator[Callable[[int], None]]:
    """Give a daemon a clock of its own, which can be set while it runs; others keep theirs."""
    file = library.with_name(f"offset-{daemon.name}-{id(daemon)}")
    file.write_text("0\n")
    before = daemon._env
    own = {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(file)}
    daemon._env = {**(before or {}), **own}

    def put(seconds: int) -> None:
        new = file.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        new.replace(file)

    try:
        yield put
    finally:
        daemon._env = before


@pytest.mark.parametrize("offset", [3600, -3600, 10 * 365 * 86400], ids=["1h", "-1h", "10y"])
def test_a_clock_that_jumps(
    bed_dirs: Iterator[Path], preloaded: Path, figures: Figures, offset: int
) -> None:
    """The clocks of the master and of one agent jump while they run."""
    with (
        running(next(bed_dirs), start=False) as bed,
        clock(bed.netmaster, preloaded) as of_master,
        clock(bed.agents[0], preloaded) as of_agent,
    ):
        bed.start()
        network(bed)
        one, two = pair(bed)
        leader = ask(bed, "GET", "/info").json()
        of_master(offset)
        of_agent(offset)
        since = time.monotonic()
        told = works_again(bed, bed.hosts[0], since)
        # longer than any lease
        deadline = since + 35
        lost = 0
        while time.monotonic() < deadline:
            lost += one.ping(two.address) is None
            time.sleep(0.5)
        assert ask(bed, "GET", "/info").json() == leader, "the leader leads on"
        hosts = ask(bed, "GET", "/hosts").json()
        assert [host["applied"] for host in hosts] == [True, True], hosts
        figures(f"{told}; {lost} pings lost in 35 s; the same leader")
        assert lost == 0
        for pod in (one, two):
            bed.delete_pod(pod)
        bed.stop()


def short_lived(bed: Bed, role: Role, name: str, seconds: float, *addresses: str) -> None:
    """Replace a daemon's certificate by one that ends soon."""
    assert bed.identities is not None
    authority = bed.identities.directory / "authority"
    pem = KeyPair(*((authority / name).read_bytes() for name in ("ca.pem", "ca-key.pem")))
    begin = datetime.now(UTC) - timedelta(days=1) + timedelta(seconds=seconds)
    request = CertificateRequest(role=role, name=name, addresses=addresses, days=1)
    issued = ca.issue(pem, request, begin)
    pem_files.write_set(
        Path(bed.identities.files(name).cert).parent,
        key=issued.key,
        certificate=issued.certificate,
        authority=pem.certificate,
    )


@pytest.mark.parametrize("whose", ["agent", "master"])
def test_a_certificate_that_ends(secure_bed: Bed, figures: Figures, whose: str) -> None:
    """A daemon's certificate ends: pods go on; a new one is used without a restart."""
    bed = secure_bed
    one, two = pair(bed)
    host = bed.hosts[0]
    owner = (
        (Role.AGENT, host.label, host.address, "127.0.0.1")
        if whose == "agent"
        else (Role.MASTER, MASTER, bed.fabric.address)
    )
    role, name, *addresses = owner
    short_lived(bed, role, name, 5, *addresses)
    daemon = bed.agents[0] if whose == "agent" else bed.netmaster
    pid = daemon.pid
    time.sleep(6)
    said, since = "", time.monotonic()
    while not said and time.monotonic() - since < 30:
        said = refusal(bed, host, "ended")
    assert one.ping(two.address, count=5)
    assert bed.identities is not None
    bed.identities.issue(role, name, *addresses)
    told = works_again(bed, host, time.monotonic())
    assert daemon.pid == pid
    meanwhile = said[:90] or "none refused: connections that were open go on"
    figures(f"meanwhile: {meanwhile}; {told}")
    for pod in (one, two):
        bed.delete_pod(pod)


@pytest.fixture(scope="module")
def hosts() -> int:
    return 2


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {}
