"""The demo: two hosts, four pods, every pod pings every other, all of it real.

`python -m tests.bed.demo run` shows it and removes everything at the end; `up` leaves it running
with the lines to enter it; `down` ends what `up` left. With the variable SECURE all connections
between the daemons have TLS; with IPV6 hosts and pods have addresses of IPv6 alone. What `up` makes
is written down in .run/demo, so that `down` removes exactly that. The cluster itself is
`tests.bed.cluster`.
"""

import os
import shlex
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bed.cluster import PROGRAMS, ROOT, SUBNETS, SUBNETS6, Bed
from tests.bed.janitor import Keeper, Ledger, process_janitor
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually

LEDGER = Ledger(ROOT / ".run" / "demo")
SHELL = ROOT / ".run" / "demo.sh"
"""Functions of bash to enter the demo that stays up."""
FAILED_LOGS = ROOT / ".run" / "demo-logs"
WIDTH = 100
PODS = {"web1": "web", "web2": "web", "db1": "db", "db2": "db"}
"""The pods, each with its group."""
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
        print("\nNext: make demo KEEP=1, and docs/first-steps.md to look around\n")
        for pod in list(bed.pods):
            bed.delete_pod(pod)
        for group in sorted(set(PODS.values())):
            bed.netctl("group", "rm", group)
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
    SHELL.write_text(shell(bed))
    print(f"\nIt stays up. Enter it:\n{hints(bed)}\nEnd it:  make demo-down")


def down() -> None:
    """End what `up` left."""
    if not LEDGER.path.exists():
        print("demo: none is up")
        return
    check_root()
    LEDGER.sweep()
    SHELL.unlink(missing_ok=True)
    print("demo: everything is removed")


def show(bed: Bed, story: "Story") -> None:
    """Start the cluster, connect pods, ping."""
    print(
        "Two hosts, four pods, on real etcd and Open vSwitch, in network namespaces of their own.\n"
    )
    bed.start()
    bed.netctl("net", "create", *(SUBNETS6 if _is_six() else SUBNETS), "default-net")
    for group in sorted(set(PODS.values())):
        bed.netctl("group", "create", "default-net", group)
    for number, (name, group) in enumerate(PODS.items()):
        bed.add_pod(bed.hosts[number % len(bed.hosts)], name, group=group)
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
    return "\n".join(
        [
            f"  . {SHELL.relative_to(ROOT)}    # in a shell of bash: netctl, on, ui",
            f"  on {first.name} ping -c 3 {other.address}",
            "  netctl net ls",
            f"  netctl trace {first.name} {other.name} --live",
            f"  on {host.label} ovs-ofctl -O OpenFlow13 --names dump-flows contivVxlanBridge",
            "  ui    # http://127.0.0.1:9999/ui/ until Ctrl-C",
            f"  tail -f {bed.dir}/netmaster.log {host.dir}/netplugin.log",
        ]
    )


def shell(bed: Bed) -> str:
    """Give the functions of bash with which a person enters a demo that stays up."""
    inside = shlex.join(bed.fabric.namespace.enter)
    url = urlsplit(bed.url)
    netctl = shlex.join([str(PROGRAMS / "netctl"), "--netmaster", bed.url, *bed.tls_flags()])
    places = {host.label: (host.namespace, host) for host in bed.hosts}
    places |= {pod.name: (pod.namespace, pod.host) for pod in bed.pods}
    cases = "\n".join(
        f"    {name}) OVS_RUNDIR={shlex.quote(str(host.ovs.rundir))} "
        f'{shlex.join(namespace.enter)} "$@" ;;'
        for name, (namespace, host) in places.items()
    )
    return f"""\
# netctl of the demo, and commands on its hosts and in its pods
netctl() {{ {inside} {netctl} "$@"; }}
on() {{
  local where=$1
  shift
  case $where in
{cases}
    *) echo "on: {" ".join(places)}, not $where" >&2; return 2 ;;
  esac
}}
ui() (
  exec systemd-socket-activate -l "127.0.0.1:${{1:-9999}}" {inside} \\
    /lib/systemd/systemd-socket-proxyd {url.netloc}
)
"""


def _bed(keeper: Keeper, story: Story) -> Bed:
    directory = Path(f"/run/contiv-demo-{os.getpid()}")
    keeper.watch_dir(directory)
    directory.mkdir()
    return demo_bed(directory, keeper=keeper, tell=story.tell)


def demo_bed(directory: Path, **more: Any) -> Bed:
    """Return the demo's cluster, whose hosts record flows."""
    secure = bool(os.environ.get("SECURE"))
    flags = {"netplugin": ["--flow-records"]}
    return Bed(directory, secure=secure, six=_is_six(), flags=flags, **more)


def _is_six() -> bool:
    return bool(os.environ.get("IPV6"))


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
