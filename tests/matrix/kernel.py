"""`make kernel-check`: run portions of the tests on the kernel's datapath, and write the results.

    python -m tests.matrix.kernel [--releases NAME...] [--portions NAME...]

Each portion runs in a guest of its own (scripts/kernel-check), with the kernel's source and the
Open vSwitch of that release: the one of this machine, or one that has a root
(`tests.matrix.roots`). The results go into the second table of docs/platforms.md, what was printed
into .run/kernel-check. Needs root, gcc, and the archive of Debian until a kernel is there.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Final
from xml.etree import ElementTree as ET

from tests.matrix import roots
from tests.matrix.box import Box
from tests.matrix.table import CUT, KERNEL, Result, written

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "platforms.md"
LOGS: Final = ROOT / ".run" / "kernel-check"
OWN: Final = "own"
"""The release of this machine."""
RELEASES: Final[Mapping[str, str]] = {OWN: "Debian 12", "trixie": "Debian 13"}


def _some(file: str, *tests: str) -> tuple[str, ...]:
    """Name some tests of a file of tests/system."""
    return tuple(f"tests/system/{file}.py::{test}" for test in tests)


# The guest has one processor, and system calls cost it some twenty times as much, so that long
# files are tried by some of their tests: of each kind one, in the mode whose flows have most to do.
# What is left out is the same in other modes, with other networks, or another example.
PORTIONS: Final[Mapping[str, Sequence[str]]] = {
    "flows": (
        "tests/integration/ofnet/test_datapath.py",
        "tests/integration/ofnet/test_packets.py",
        "tests/integration/ofnet/test_tunnel_questions.py",
        "tests/integration/ofnet/test_protocols.py",
        "tests/integration/ovsdb/test_own_ports.py",
    ),
    # left out: of metrics of pods, the other mode and family
    "hosts": (
        "tests/system/kernel.py",
        *_some(
            "test_pod_metrics",
            "test_pods_have_the_bytes_that_one_sent_to_the_other[routing-ipv4-vxlan]",
            "test_a_pod_that_goes_is_named_no_more_and_stays_in_the_sum_of_its_group[routing]",
            "test_what_is_dropped_is_counted_once_for_the_pod_that_sent_it[routing-vxlan]",
        ),
    ),
    # left out: bridging, but for one connection; policies from records on the other encapsulation;
    # of metrics of pods what `hosts` has
    "flow-records": (
        *_some(
            "test_flows",
            "test_a_connection_is_recorded_once_with_names_and_bytes[bridge-ipv6-vxlan]",
            "test_a_connection_is_recorded_once_with_names_and_bytes[routing-ipv4-vxlan]",
            "test_a_connection_is_recorded_once_with_names_and_bytes[routing-ipv6-vlan]",
            "test_a_service_is_named_with_its_address_and_its_provider[routing-vxlan]",
            "test_a_service_is_named_with_its_address_and_its_provider[routing-vlan]",
            "test_suggested_policies_allow_what_was_seen_and_nothing_else[routing-vxlan]",
            "test_records_are_exported_with_names[routing]",
            "test_every_dropped_packet_is_recorded_or_counted_as_lost[routing-vxlan]",
            "test_every_dropped_packet_is_recorded_or_counted_as_lost[routing-vlan]",
            "test_what_a_policy_under_audit_would_deny_has_a_record_of_its_own[routing]",
            "test_a_watch_tells_of_beginnings_and_ends[routing]",
        ),
        *_some(
            "test_pod_metrics",
            "test_pods_have_the_bytes_that_one_sent_to_the_other[routing-ipv6-vlan]",
            "test_what_is_dropped_is_counted_once_for_the_pod_that_sent_it[routing-vlan]",
        ),
    ),
    "services": ("tests/integration/ofnet/test_services.py",),
    # left out: the other three modes, which differ in the tables before and after the translation
    # (`modes` has those); of the table of ways, targets outside of pods and sockets that are kept
    "cluster-services": (
        *_some(
            "test_services",
            "test_connections_are_spread_over_providers_here_and_elsewhere[routing-vxlan]",
            "test_a_provider_is_removed_while_clients_run[routing-vxlan]",
            "test_ended_connections_are_remembered[routing-vxlan]",
            "test_without_providers_connections_are_refused[routing-vxlan]",
            "test_a_killed_agent[routing-vxlan]",
            "test_a_provider_goes_while_the_agent_is_away[routing-vxlan]",
            "test_a_killed_switch[routing-vxlan]",
            "test_a_pod_serves_itself[routing-vxlan]",
            "test_two_services_of_one_pod_answer_under_their_own_names[routing-vxlan]",
            "test_policies_judge_the_provider[routing-vxlan]",
            "test_tenants_with_the_same_addresses[routing]",
        ),
        *_some(
            "test_service_table",
            "test_every_way_leads_to_every_target[vxlan-pod-routing-dual]",
            "test_every_way_of_ipv6_leads_to_every_target[vxlan-pod-routing-dual]",
        ),
    ),
    "outside": ("tests/system/test_host_access.py", "tests/system/test_host_access6.py"),
    # left out: pods that move, which takes minutes; the truth table
    "modes": _some(
        "test_modes",
        "test_pods_reach_each_other",
        "test_whose_the_gateway_is",
        "test_pods_of_bridged_vlan_networks_alone_are_announced",
        "test_policies_hold",
    ),
    # of each group of cases one or two; what a policy means is tried by all of them elsewhere, here
    # it is whether this datapath carries flows out
    "policies": _some(
        "test_policy_table",
        "test_network_policies[peers ingress 0,4]",
        "test_network_policies[peers egress 1,3]",
        "test_network_policies[ports ingress 12]",
        "test_network_policies[ports egress 25]",
        "test_network_policies[rules ingress deny all]",
        "test_network_policies[conflict egress pod allowed, all denied]",
        "test_network_policies[ipv6 ingress and ipv4]",
        "test_network_policies[upstream named port in]",
        "test_administrators_policies[admin ingress of TCP, pass first, v1alpha2]",
        "test_administrators_policies[the tier Baseline comes before the older baseline]",
        "test_random_policies[0]",
    ),
    # left out: a store that freezes and netmaster away, which no datapath hears of; bridging
    "restarts": (
        *_some(
            "test_restarts",
            "test_killed_agents_lose_no_packet",
            "test_a_restarted_agent_leaves_the_routing_of_its_host_alone",
            "test_everything_killed_at_once_loses_no_packet",
            "test_a_killed_agent_finds_what_changed_elsewhere",
        ),
        *_some(
            "test_dataplane_restarts",
            "test_killed_and_frozen_agents[routing]",
            "test_pods_that_never_talked_meet_while_agents_are_away[routing-killed-vxlan]",
            "test_pods_that_never_talked_meet_while_agents_are_away[routing-killed-vlan]",
            "test_a_killed_switch[routing-vswitchd]",
            "test_a_killed_switch[routing-server]",
            "test_a_switch_killed_with_its_agent[routing]",
            "test_flows_and_ports_changed_by_hand[routing]",
        ),
    ),
    # left out: of the guard, networks of the host's own
    "guards": (
        *_some(
            "test_forgery",
            "test_a_thousand_forged_packets[routing-vxlan]",
            "test_a_thousand_forged_packets[routing-vlan]",
            "test_a_host_speaks_for_its_own_pods_alone[routing]",
            "test_a_vlan_brings_nothing_in_the_name_of_addresses_that_no_pod_has[routing]",
        ),
        *_some(
            "test_pod_guard",
            "test_no_management_port_is_reached[routing-vxlan]",
            "test_no_management_port_is_reached[routing-vlan]",
        ),
    ),
    # left out: bundles and dry runs, which no datapath hears of
    "trace": (
        "tests/system/test_trace.py",
        *_some(
            "test_live_trace",
            "test_a_packet_that_is_allowed_arrives",
            "test_the_host_that_drops_it_first_is_named",
            "test_a_tunnel_port_that_is_gone_is_found",
        ),
        *_some(
            "test_diagnostics",
            "test_packets_count_for_the_rules_they_match_on_the_hosts_they_cross",
            "test_packets_of_an_endpoint_come_to_the_client_and_who_asked_is_logged",
            "test_a_self_test_names_the_way_that_is_broken",
            "test_connections_that_a_policy_of_kubernetes_judges_count_for_its_rule",
        ),
    ),
    "fragments": ("tests/system/test_fragments.py",),
    "mtu": ("tests/system/test_mtu.py", "tests/system/test_mtu_modes.py"),
    "bandwidth": ("tests/system/test_bandwidth.py",),
    # left out: a router that is gone and sessions that come back, which no datapath hears of; an
    # internal port that is deleted, which the kernel refuses
    "bgp": (
        *_some(
            "test_bgp",
            "test_the_router_is_told_of_pods_as_they_come_and_go[ebgp]",
            "test_pods_reach_who_is_behind_the_router",
            "test_pods_and_who_is_behind_the_router_reach_each_other_by_ipv6[ebgp]",
            "test_a_route_that_is_withdrawn_leads_nowhere[ebgp]",
            "test_the_hosts_interface_is_mended[set inb01 down]",
            "test_an_agent_that_is_killed_and_started_again_loses_nothing",
            "test_a_peering_that_is_deleted_leaves_nothing",
        ),
        *_some(
            "test_bgp_by_ipv6",
            "test_pods_and_who_is_behind_the_router_reach_each_other[frr-by-ipv6-extended]",
            "test_pods_and_who_is_behind_the_router_reach_each_other[bird-by-ipv6]",
        ),
    ),
    "firewalls": ("tests/system/test_real_firewalls.py",),
    "preflight": (
        "tests/system/test_preflight.py",
        "tests/system/test_cleanup.py",
        "tests/system/test_host_cleanup.py",
    ),
}
"""What pytest is told for each. All run unless some are named."""
_WHAT: Final = re.compile(r"kernel (\S+), ovs-vswitchd \(Open vSwitch\) (\S+)")
_STATUS: Final = re.compile(r"^kernel-check ended with (\d+)", re.MULTILINE)
# what the kernel says meanwhile may come between a test's name and its outcome
_PRINTED: Final = re.compile(r"(?:^|\s)(PASSED|FAILED|ERROR|SKIPPED)\b[^\n]*\[ *\d+%\]")
_INTERRUPTED: Final = "2"
"""What pytest ends with when it is told to, for time is over."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix.kernel")
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=[OWN])
    parser.add_argument("--portions", nargs="+", choices=PORTIONS, default=list(PORTIONS))
    options = parser.parse_args(arguments)
    LOGS.mkdir(parents=True, exist_ok=True)
    failed, tree = 0, commit()
    for release in options.releases:
        title = RELEASES[release]
        with files(release) as place:
            for portion in options.portions:
                result, what = tried(release, portion, place)
                cell = f"{result} ({tree}, {datetime.now(UTC):%Y-%m-%d})"
                sys.stdout.write(f"{title}: {portion}: {cell}\n")
                sys.stdout.flush()
                cells = {(portion, title): cell}
                if what:
                    cells["what it has", title] = what
                PAGE.write_text(written(PAGE.read_text(), cells, KERNEL))
                failed += result.bad
    return int(failed > 0)


@contextmanager
def files(release: str) -> Iterator[dict[str, str]]:
    """Have the files of a release for the body, which are made; yield what says where they are."""
    if release == OWN:
        yield {}
        return
    with roots.alone(release):
        root = roots.made(release)
        roots.prepare(root, ROOT)
        box = Box(root)
        box.start()
        roots.unfinished(release).touch()
        setup = f"cd /{roots.TREE} && make setup"
        try:
            with (LOGS / f"{release}-setup.log").open("w") as log:
                box.run(setup, online=True, output=log).check_returncode()
        finally:
            box.stop()
        roots.unfinished(release).unlink()
        yield {"KERNEL_CHECK_ROOT": str(root), "KERNEL_CHECK_TREE": f"/{roots.TREE}"}


def tried(release: str, portion: str, place: Mapping[str, str]) -> tuple[Result, str]:
    """Run a portion; return what came of it, and kernel and Open vSwitch as the guest told them.

    Log and report are called after it.
    """
    log = LOGS / f"{release}-{portion}.log"
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    environ = {**os.environ, **place, "KERNEL_CHECK_REPORT": str(report)}
    words = PORTIONS[portion]
    command = [str(ROOT / "scripts/kernel-check"), *words]
    wanted = planned(words)
    with log.open("w") as output:
        run(command, environ, output)
    return judged(log.read_text(errors="replace"), report, wanted)


def run(command: Sequence[str], environ: Mapping[str, str], output: IO[str]) -> None:
    """Run a command to its end; if this program ends before, so do all processes of the command.

    A kernel that is built, or a guest, would go on without who waits for it.
    """
    # A signal while the process is made would leave it without anybody who knows it: signals wait
    # until it is known. The command itself begins with none blocked.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    unblock = partial(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
    process: subprocess.Popen[bytes] | None = None
    try:
        process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=unblock,  # noqa: PLW1509 - there is one thread
        )
        unblock()
        process.wait()
    except BaseException:
        if process:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        raise
    finally:
        unblock()


def planned(words: Sequence[str]) -> int:
    """Return how many tests pytest is told to run by these words."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return sum("::" in line for line in done.stdout.splitlines())


def judged(said: str, report: Path, wanted: int) -> tuple[Result, str]:
    """Return the result of a guest that said this, and what it has.

    If it ran fewer tests than `wanted`, the result says why.
    """
    found = _WHAT.search(said)
    what = f"kernel {found[1]}, Open vSwitch {found[2]}" if found else ""
    ended = _STATUS.search(said)
    status = ended[1] if ended else ""
    why = CUT if status == _INTERRUPTED else "did not come to its end"
    outcomes = reported(report.read_text()) if report.exists() else printed(said)
    ran = len(_PRINTED.findall(said))
    failed = outcomes.count(True)
    return Result(outcomes.count(False), failed, "" if ran >= wanted else why), what


def reported(report: str) -> list[bool]:
    """Return of each test in a report of pytest, but for those skipped, whether it failed.

    The report is JUnit's XML. A case without a name is that pytest was interrupted.
    """
    return [
        bool({*kinds} & {"failure", "error"})
        for case in ET.fromstring(report).iter("testcase")
        if case.get("name") and "skipped" not in (kinds := [child.tag for child in case])
    ]


def printed(said: str) -> list[bool]:
    """Return the same of a guest that was gone before it reported: what it printed of each test."""
    return [outcome != "PASSED" for outcome in _PRINTED.findall(said) if outcome != "SKIPPED"]


def commit() -> str:
    """Return the commit of this tree."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    sys.exit(main(sys.argv[1:]))
