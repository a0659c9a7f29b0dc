"""The demo: two hosts, four pods, every pod pings every other, all of it real.

`python -m tests.bed.demo run` shows it and removes everything at the end; `up` leaves it running
with the lines to enter it; `down` ends what `up` left. With the variable SECURE all connections
between the daemons have TLS. What `up` makes is written down in
.run/demo, so that `down` removes exactly that. The cluster itself is `tests.bed.cluster`.
"""

import os
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bed.cluster import ADMIN, PROGRAMS, ROOT, Bed
from tests.bed.janitor import Keeper, Ledger, process_janitor
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually

LEDGER = Ledger(ROOT / ".run" / "demo")
FAILED_LOGS = ROOT / ".run" / "demo-logs"
NETWORK = ["net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net"]
WIDTH = 100
POD_NAMES = ["web1", "web2", "db1", "db2"]
TOOLS = ["etcd", "ovs-vswitchd", "ovsdb-server", "nsenter", "setpriv", "ping", "ip"]


class CannotRun(Exception):
    """The demo cannot start; the text says why, and what to do."""


def main(words: Sequence[str]) -> int:
    """Run a verb of the demo; its exit status."""
    verbs: dict[str, Callable[[], None]] = {"run": run, "up": up, "down": down}
    if len(words) != 1 or words[0] not in verbs:
        print("usage: python -m tests.bed.demo run|up|down", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        verbs[words[0]]()
    except CannotRun as exc:
        print(f"demo: {exc}", file=sys.stderr)
        return 1
    except (CniFailed, RuntimeError, TimeoutError) as exc:
        print(f"\ndemo: {exc}\n\nLogs of this run: {FAILED_LOGS}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything is removed", file=sys.stderr)
        return 130
    return 0


def run() -> None:
    """Show the demo and remove everything."""
    check_machine()
    story = Story()
    bed = _bed(process_janitor(), story)
    try:
        show(bed, story)
        print(f"\nNext, to look around: make demo KEEP=1, then lines like these\n{hints(bed)}\n")
        for pod in list(bed.pods):
            bed.delete_pod(pod)
        bed.netctl("net", "rm", "default-net")
    finally:
        _keep_logs_of_a_failure(bed)
        bed.stop()
        process_janitor().close()
    story.tell("removed", "everything")


def up() -> None:
    """Show the demo and leave it running."""
    check_machine()
    if LEDGER.path.exists():
        if LEDGER.any_alive():
            raise CannotRun("one is up already; end it with: make demo-down")
        LEDGER.sweep()
    LEDGER.path.parent.mkdir(exist_ok=True)
    story = Story()
    bed = _bed(LEDGER, story)
    try:
        show(bed, story)
    except BaseException:
        _keep_logs_of_a_failure(bed)
        LEDGER.sweep()
        raise
    print(f"\nIt stays up. Enter it:\n{hints(bed)}\nEnd it:  make demo-down")


def down() -> None:
    """End what `up` left."""
    if not LEDGER.path.exists():
        print("demo: none is up")
        return
    check_root()
    LEDGER.sweep()
    print("demo: everything is removed")


def show(bed: Bed, story: "Story") -> None:
    """Start the cluster, connect pods, ping."""
    print(
        "Two hosts, four pods, on real etcd and Open vSwitch, in network namespaces of their own.\n"
    )
    bed.start()
    bed.netctl(*NETWORK)
    for number, name in enumerate(POD_NAMES):
        bed.add_pod(bed.hosts[number % len(bed.hosts)], name)
    story.tell("ping", "every pod to every pod, 3 ICMP echoes each")
    matrix = pings(bed.pods)
    print(f"\n{bed.netctl('net', 'ls')}")
    print(table(["POD", "HOST", "IP", "MAC", "VTEP"], [_row(pod) for pod in bed.pods]))
    print(f"\n{matrix}")


class Story:
    """Prints what happens, with the time since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def tell(self, what: str, command: str) -> None:
        """Print one step; a long command goes on in lines of its own that can be pasted."""
        lines = textwrap.wrap(command, WIDTH, break_long_words=False, break_on_hyphens=False)
        text = f" \\\n{'':25}".join(lines)
        print(f"{time.monotonic() - self._start:5.1f} s  {what:<12}  {text}", flush=True)


def check_machine() -> None:
    """Refuse, with the remedy, what would fail half-way."""
    check_root()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise CannotRun(f"not installed: {', '.join(missing)}; install with: make setup")


def check_root() -> None:
    """Refuse anybody but root."""
    if os.geteuid() != 0:
        raise CannotRun("network namespaces need root; try: sudo make demo")


def pings(pods: Sequence[Pod]) -> str:
    """Ping from every pod to every pod; the matrix. Any loss is an error."""

    def row(pod: Pod) -> list[str]:
        return [pod.name, *(_ping(pod, peer) for peer in pods)]

    with ThreadPoolExecutor(len(pods)) as pool:
        return table(["FROM \\ TO", *(pod.name for pod in pods)], list(pool.map(row, pods)))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table as netctl does: columns by their widest cell."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) + 2 for column in range(len(head))]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def hints(bed: Bed) -> str:
    """Give the lines a person would type next."""
    first, host = bed.pods[0], bed.hosts[0]
    other = next(pod for pod in bed.pods if pod.host is not first.host)
    enter = " ".join(bed.fabric.namespace.enter)
    netctl = " ".join([str(PROGRAMS / "netctl"), "--netmaster", bed.url, *bed.tls_flags()])
    curl = f"curl -s {bed.agent_url()}/inspect/driver"
    if bed.identities:
        cert = bed.identities.files(ADMIN)
        curl += f" --cacert {cert.ca} --cert {cert.cert} --key {cert.key}"
    etcdctl = f"{enter} env ETCDCTL_API=3 etcdctl --endpoints {bed.store.url}"
    return "\n".join(
        [
            f"  {' '.join(first.namespace.enter)} ping -c 3 {other.address}",
            f"  {enter} {netctl} net ls",
            f"  OVS_RUNDIR={host.ovs.rundir} ovs-vsctl show",
            f"  OVS_RUNDIR={host.ovs.rundir} ovs-ofctl -O OpenFlow13 dump-flows contivVxlanBridge",
            f"  {' '.join(host.namespace.enter)} {curl}",
            f"  {etcdctl} get --prefix /contiv.io/",
            f"  tail -f {bed.dir}/netmaster.log {host.dir}/netplugin.log",
        ]
    )


def _bed(keeper: Keeper, story: Story) -> Bed:
    directory = Path(f"/run/contiv-demo-{os.getpid()}")
    keeper.watch_dir(directory)
    directory.mkdir()
    secure = bool(os.environ.get("SECURE"))
    return Bed(directory, secure=secure, keeper=keeper, tell=story.tell)


def _row(pod: Pod) -> list[str]:
    return [pod.name, pod.host.label, pod.address, pod.mac, pod.host.address]


def _ping(pod: Pod, peer: Pod) -> str:
    # a remote pod is known as soon as the store's watch has brought it
    eventually(lambda: pod.ping(peer.address), f"{pod.name} reaches {peer.name}")
    mean = pod.ping(peer.address, count=3)
    if mean is None:
        raise RuntimeError(f"{pod.name} to {peer.name}: packets were lost")
    return f"{mean:.2f} ms"


def _keep_logs_of_a_failure(bed: Bed) -> None:
    if sys.exception() is None:
        return
    shutil.rmtree(FAILED_LOGS, ignore_errors=True)
    FAILED_LOGS.mkdir(parents=True)
    for log in bed.logs():
        shutil.copy(log, FAILED_LOGS / str(log.relative_to(bed.dir)).replace("/", "-"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
