"""Which of upstream's network tests are run, and what came of them: pure.

In come a release and the JUnit reports that upstream's e2e.test writes, of version 1 of its runner
(before 1.25) and of version 2; out come the runner's command, a verdict on each test that was
chosen, and the text for people. Tests that the choice leaves out are skipped for a reason that is
told.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple
from xml.etree import ElementTree as ET

from tests.e2e.programs import GINKGO_2, Family, Version

FOCUS: Final = (
    r"\[sig-node\] Probing container.*GRPC|\[sig-network\].*"
    r"(\[Conformance\]|Netpol|NetworkPolicy \[LinuxOnly\]|Services|EndpointSlice|DNS|Conntrack"
    r"|DualStack|[Dd]ual-?[Ss]tack|Granular Checks: Services)"
)
LEFT_OUT: Final[tuple[tuple[str, str], ...]] = (
    (r"\[Provider:|GCE|L7|\[Feature:(Ingress|Example)\]", "is of a cloud's cluster"),
    (r"LoadBalancer|ESIPP|load ?balancer", "needs a cloud's load balancers"),
    (r"\[Disruptive\]|\[Serial\]", "stops parts of the cluster by ways of a cloud"),
    (r"SCTP", "needs SCTP in the kernel, which few distributions load"),
    (r"\[Slow\]|Scalability|Performance|IPerf", "measures, or takes many minutes"),
    (r"\[Alpha\]|\[Deprecated\]|\[Flaky\]", "is of a feature that is off, or is no verdict"),
    (r"NetworkPolicyLegacy", "is the forerunner of the suite Netpol, in the same release"),
    (r"configMap nameserver", "changes CoreDNS, and there is none: the agents are the DNS"),
    (r"Feature:Networking-(DNS|IPv4|IPv6)", "asks the internet"),
    (r"configurable pod resolv.conf", "needs the CoreDNS in the image of upstream's agnhost"),
    (r"node podCIDRs", "asks for subnets of nodes, which this network does not use"),
)
"""Patterns of names, and why such a test is not run here."""
DUAL_STACK: Final = (r"DualStack|[Dd]ual-?[Ss]tack", "needs both families")

_SHOWN: Final = 200

State = Literal["passed", "failed", "skipped"]


class Verdict(NamedTuple):
    """What came of a test; `reason` is of a failure or of a skip."""

    name: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tests are run on a release; `only` is a pattern of names, for some of these."""

    version: Version
    family: Family = Family.V4
    only: str = ""

    @property
    def focus(self) -> str:
        """One pattern of all tests that are run."""
        return rf"\[sig-network\].*({self.only})" if self.only else FOCUS

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """The patterns of the tests that are not run, each with its reason."""
        return LEFT_OUT if self.family.is_dual else (*LEFT_OUT, DUAL_STACK)

    @property
    def skip(self) -> str:
        """One pattern of all tests that are not run."""
        return "|".join(pattern for pattern, _ in self.left_out)


def command(choice: Choice, tests: Path, ginkgo: Path | None, processes: int) -> list[str]:
    """Return the words that run the chosen tests; those of e2e.test itself come after them."""
    newer = choice.version >= GINKGO_2
    chosen = {
        "focus": choice.focus,
        "skip": choice.skip,
        "no-color" if newer else "noColor": "true",
    }
    if newer or ginkgo:
        chosen["timeout"] = "12h"  # an hour by default; version 1 has it in its runner alone
    if ginkgo is None:
        return [str(tests), *(f"--ginkgo.{name}={value}" for name, value in chosen.items())]
    chosen["procs" if newer else "nodes"] = str(processes)
    chosen["keep-going" if newer else "keepGoing"] = "true"
    return [str(ginkgo), *(f"--{key}={value}" for key, value in chosen.items()), str(tests), "--"]


def read(choice: Choice, reports: Iterable[str]) -> list[Verdict]:
    """Return the verdicts in reports of one run, by name: one of each process, or one of all.

    What failed beside the tests (a suite's preparation) is a verdict of that name. Raises
    ParseError if a report is not whole.
    """
    found: dict[str, Verdict] = {}
    for report in reports:
        for case in ET.fromstring(report).iter("testcase"):
            verdict = _verdict(choice, case)
            # a process reports as skipped what another one ran
            if verdict and (verdict.name not in found or verdict.state != "skipped"):
                found[verdict.name] = verdict
    return sorted(found.values())


def _verdict(choice: Choice, case: ET.Element) -> Verdict | None:
    """Return the verdict on a test; None if the runner met it, but it is none of the network's."""
    name = case.get("name", "").removeprefix("[It] ")
    for tag in ("failure", "error"):
        if (failure := case.find(tag)) is not None:
            return Verdict(name, "failed", _first_line(failure))
    if not re.search(choice.focus, name):
        return None
    for pattern, reason in choice.left_out:
        if re.search(pattern, name):
            return Verdict(name, "skipped", reason)
    skipped = case.find("skipped")
    if skipped is None:
        return Verdict(name, "passed")
    said = skipped.get("message", "").removeprefix("skipped").removeprefix(" - ").strip()
    return Verdict(name, "skipped", said or "by the test itself: the log has the reason")


def _first_line(failure: ET.Element) -> str:
    """Return what a test missed, without the place in its source and the time; cut if long."""
    text = failure.get("message") or failure.text or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not re.search(r"\.go(:\d+)?$", line)]
    first = (told or lines or ["without a word"])[0]
    return re.sub(r"^\w{3} [ \d]\d [\d:.]+: ", "", first)[:_SHOWN]


def good(verdicts: Sequence[Verdict]) -> bool:
    """Return whether tests ran and none failed."""
    states = {verdict.state for verdict in verdicts}
    return "passed" in states and "failed" not in states


def told(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts for people: failures first, then skips by their reasons, then numbers."""
    lines = [f"FAILED {one.name}\n       {one.reason}" for one in verdicts if one.state == "failed"]
    skips = defaultdict(list)
    for one in verdicts:
        if one.state == "skipped":
            skips[one.reason].append(one.name)
    for reason, names in sorted(skips.items()):
        lines.append(f"skipped, {reason}:")
        lines += [f"       {name}" for name in names]
    count = Counter(one.state for one in verdicts)
    conforming = sum("[Conformance]" in one.name for one in verdicts if one.state == "passed")
    lines.append(
        f"{count['passed']} passed ({conforming} of them [Conformance]), {count['failed']} failed, "
        f"{count['skipped']} skipped"
    )
    return "\n".join(lines)
