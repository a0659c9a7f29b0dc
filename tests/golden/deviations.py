"""The differences between recorded flows and ours that are meant, each with a name.

A difference is a flow of one side alone, or two flows of one table, priority and match that do
different things. What has no name here is a fault. Every name is a line of `docs/deviations.md`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from ofnet.openflow.fields import FROM_HOST, MANAGEMENT
from ofnet.tables import Mode
from tests.golden.recordings import Line
from tests.golden.run import Case

GONE_PORT: Final = re.compile(r"\bgone\d+\b")
TAGGING: Final = re.compile(r"push_vlan:0x8100,set_field:\d+->vlan_vid,")
FORGET: Final = "ct_clear,"
ARRIVED: Final = "write_metadata:0x100000001/0xff00000001,"
"""What marks that a packet arrived; in routed vlan mode all are in one VRF."""
RESTARTED: Final = {Mode.VLAN: 37, Mode.VXLAN: 38}
"""The step that shows what bridge modes had after an agent's restart."""


class Difference(NamedTuple):
    """A flow of the recording, of ours, or one of each with the same table, priority and match."""

    recorded: Line | None
    ours: Line | None

    def __str__(self) -> str:
        return f"recorded {self.recorded}\n    ours {self.ours}"


@dataclass(frozen=True)
class Verdict:
    """How a recording and ours compare: names of what deviates, and what has no name."""

    equal: int
    deviating: Counter[str]
    unnamed: tuple[Difference, ...]


def judge(case: Case) -> Verdict:
    """Compare a recording with ours."""
    found: Counter[str] = Counter()
    unnamed = []
    for difference in differences(case):
        name = name_of(difference, case)
        if name is None:
            unnamed.append(difference)
        else:
            found[name] += 1
    return Verdict(len(case.recording.lines & case.ours), found, tuple(unnamed))


def differences(case: Case) -> Iterator[Difference]:
    """Yield what differs, flows of one match as one difference."""
    recorded = {line[:3]: line for line in case.recording.lines - case.ours}
    ours = {line[:3]: line for line in case.ours - case.recording.lines}
    for key in sorted(recorded.keys() | ours.keys()):
        yield Difference(recorded.get(key), ours.get(key))


def name_of(difference: Difference, case: Case) -> str | None:
    """Return the name of a difference, None if it has none."""
    match difference:
        case Difference(Line() as recorded, Line() as ours):
            names = [name for name, holds in CHANGED.items() if holds(recorded, ours, case)]
        case Difference(Line() as recorded, None):
            names = [name for name, holds in LEFT_OUT.items() if holds(recorded, case)]
        case Difference(None, Line() as ours):
            names = [name for name, holds in ADDED.items() if holds(ours, case)]
        case _:
            names = []
    assert len(names) < 2, f"{difference} is called {names}"
    return names[0] if names else None


# -- other actions -----------------------------------------------------------------------------


def _flooded_to_ports(recorded: Line, ours: Line, case: Case) -> bool:
    """Tell whether ours sends to the ports of the recorded group, in the same way to each."""
    if (ours.table, ours.priority, case.mode) != (9, 10, Mode.VXLAN):
        return False
    return _buckets(ours.actions) == case.recording.groups.get(recorded.actions)


def _buckets(actions: str) -> frozenset[tuple[str, ...]]:
    """Return what each port of a list of actions gets, as buckets of a group."""
    found = set()
    before: list[str] = []
    for action in actions.split(","):
        if action.startswith("output:"):
            changes = sorted(before, key=lambda done: done == "pop_vlan")
            found.add((*changes, action))
        else:
            before.append(action)
    return frozenset(found)


def _tunnel_by_services(recorded: Line, ours: Line, case: Case) -> bool:
    """Tell whether only the next table of what a tunnel brings differs."""
    if (ours.table, case.mode) != (1, Mode.VXLAN) or "tun_id=" not in ours.match:
        return False
    return ours.actions.replace("goto_table:2", "goto_table:9") == recorded.actions


def _arrivals_judged(recorded: Line, ours: Line, case: Case) -> bool:
    """Tell whether ours only has what arrives looked at in table 2 first."""
    if ours.table != 1 or not ours.actions.endswith("goto_table:2"):
        return False
    unmarked = ours.actions.replace("goto_table:2", "goto_table:6")
    if case.mode is Mode.VLROUTER:
        unmarked = unmarked.removeprefix(ARRIVED)
    return unmarked == recorded.actions


def _ipv6_tagged(recorded: Line, ours: Line, case: Case) -> bool:
    """Tell whether ours only adds the tag that the IPv4 flow to the same MAC has."""
    if (ours.table, case.mode) != (7, Mode.VLROUTER) or not ours.match.startswith("ipv6,"):
        return False
    return TAGGING.sub("", ours.actions) == recorded.actions != ours.actions


def _host_port_renumbered(recorded: Line, ours: Line, _case: Case) -> bool:
    """Tell whether the recorded flow sends to the number that the host's port had before."""
    return recorded != ours == _renumbered(recorded)


def _host_untracked(recorded: Line, ours: Line, _case: Case) -> bool:
    """Tell whether ours only forgets how the host's firewall tracked what comes by its port."""
    kept = ours.actions.removeprefix(FORGET)
    return kept != ours.actions and ours._replace(actions=kept) == _renumbered(recorded)


_WRITTEN: Final = re.compile(r"write_metadata:(0x[0-9a-f]+|0)/(0x[0-9a-f]+)")
_MARKS: Final = MANAGEMENT.mask | FROM_HOST.mask


def _unmarked(actions: str) -> str:
    """Return actions without the marks of a host's own endpoint."""

    def strip(found: re.Match[str]) -> str:
        value, mask = (int(text, 16) & ~_MARKS for text in found.groups())
        return f"write_metadata:{f'{value:#x}' if value else '0'}/{mask:#x}"

    return _WRITTEN.sub(strip, actions)


def _hosts_own(recorded: Line, ours: Line, _case: Case) -> bool:
    """Tell whether ours is the same, with the marks of a host's own endpoint (`host-untracked`)."""
    actions = ours.actions.removeprefix(FORGET) if ours.table == 1 else ours.actions
    return ours.table in {1, 4} and _unmarked(actions) == recorded.actions


CHANGED: Final[Mapping[str, Callable[[Line, Line, Case], bool]]] = {
    "flood-without-groups": _flooded_to_ports,
    "pod-guard": _hosts_own,
    "tunnel-by-services": _tunnel_by_services,
    "judged-at-both-ends": _arrivals_judged,
    "vlrouter-ipv6-tagged": _ipv6_tagged,
    "host-port-found-again": _host_port_renumbered,
    "host-untracked": _host_untracked,
}


# -- recorded alone ----------------------------------------------------------------------------


def _assigns_clients(recorded: Line, _case: Case) -> bool:
    """Tell whether a flow watches a service, or translates for one of its clients."""
    return (recorded.table, recorded.priority) in {(3, 10), (3, 100), (6, 100)}


def _arp_mode_forgotten(recorded: Line, case: Case) -> bool:
    """Tell whether ARP is brought up though it is to be flooded: after a restart."""
    wanted = Line(0, 100, "arp,arp_op=1", "CONTROLLER:65535")
    return recorded == wanted and case.recording.step == RESTARTED.get(case.mode)


def _lost_host_port(recorded: Line, case: Case) -> bool:
    """Tell whether the recorded flow is ours but for the number that the host's port had before."""
    again = _renumbered(recorded)
    forgetful = again._replace(actions=f"{FORGET}{again.actions}")
    return recorded != again and not case.ours.isdisjoint({again, forgetful})


def _ipv6_low(recorded: Line, case: Case) -> bool:
    """Tell whether ours has the same at the priority that IPv4 has."""
    return (
        case.mode is Mode.VLROUTER
        and {
            recorded._replace(priority=102),
            _on_vlan(recorded, case),
        }
        <= case.ours
    )


@cache  # asked for each line beside each other one
def _renumbered(line: Line) -> Line:
    match, actions = (GONE_PORT.sub("contivh0", text) for text in (line.match, line.actions))
    return line._replace(match=match, actions=actions)


def _on_vlan(line: Line, case: Case) -> Line | None:
    """Return our flow to the same port for tagged packets."""
    popped = line.actions.replace("output:", "pop_vlan,output:")
    for ours in case.ours:
        if (7, 103, popped) == (ours.table, ours.priority, ours.actions):
            untagged = re.sub(r"dl_vlan=\d+,", "", ours.match)
            if untagged == line.match != ours.match:
                return ours
    return None


def _group_source_lower(recorded: Line, case: Case) -> bool:
    """Tell whether ours drops frames from group addresses one priority above."""
    return recorded.match.startswith("dl_src=01:") and recorded._replace(priority=101) in case.ours


LEFT_OUT: Final[Mapping[str, Callable[[Line, Case], bool]]] = {
    "services-by-switch": _assigns_clients,
    "arp-mode-kept": _arp_mode_forgotten,
    "host-port-found-again": _lost_host_port,
    "vlrouter-ipv6-on-vlans": _ipv6_low,
    "dns-mark": lambda recorded, _case: _marked_dns(recorded),
    "group-source": _group_source_lower,
}


# -- ours alone --------------------------------------------------------------------------------


def answers_neighbours(ours: Line, _case: object = None) -> bool:
    """Tell whether a flow is about questions for neighbours."""
    return ours.table in {10, 11} or (ours.table == 0 and ours.priority in {110, 111})


def translates_services(ours: Line, _case: object = None) -> bool:
    """Tell whether a flow is about services, of whatever client."""
    return ours.table in {12, 13, 14, 15, 17} or (ours.table in {3, 6} and 1 < ours.priority < 200)


def _marked_dns(line: Line) -> bool:
    """Tell whether a flow lets DNS pass that the agent sends on."""
    return (line.table, line.priority) == (0, 101) and "dl_vlan=4093" in line.match


def _judges_arrivals(ours: Line, case: Case) -> bool:
    """Tell whether a flow has what arrives from other hosts judged."""
    if (case.mode, ours.table, ours.priority) == (Mode.VLAN, 1, 101):
        return ours.match.startswith("in_port=up0,dl_vlan=")
    return ours.table == 2 and "metadata=0x" in ours.match


def judges_fragments(ours: Line) -> bool:
    """Tell whether a flow has fragments go where the first one may go.

    Host access translates them by connection tracking, for ports are in the first one alone.
    """
    if "nw_frag=" not in ours.match:
        return False
    host_access = (ours.table, ours.priority) in {(2, 101), (8, 102), (8, 103)}
    return host_access or (ours.table < 24 and ours.priority == 210)


def _dns_of_host(ours: Line, _case: Case) -> bool:
    wanted = Line(0, 102, "udp,in_port=contivh0,tp_dst=53", f"{FORGET}goto_table:2")
    return ours == wanted


def _dns_by_ipv6(ours: Line, _case: Case) -> bool:
    return (ours.table, ours.priority) == (0, 98) and ours.match.startswith("udp6,")


def hears_errors(ours: Line, _case: object = None) -> bool:
    """Tell whether a flow takes errors about what a pod sent by its host to the agent."""
    return (ours.table, ours.priority) == (2, 102) and ours.match.startswith("icmp,")


def probes_tunnels(ours: Line, _case: object = None) -> bool:
    """Tell whether a flow answers probes of tunnels, or brings answers to the agent."""
    return ours.table == 1 and ours.match in {"tun_id=0xfffffe", "tun_id=0xffffff"}


def _group_source(ours: Line, case: Case) -> bool:
    """Tell whether the recording drops frames from group addresses one priority below."""
    lower = ours._replace(priority=100)
    return ours.match.startswith("dl_src=01:") and lower in case.recording.lines


def _guard(ours: Line, _case: Case) -> bool:
    return ours.table == 0 and ours.priority in {5, 6, 7, 8}


def _rule_for_ipv6(ours: Line, case: Case) -> bool:
    """Tell whether this is what a recorded rule means for IPv6."""
    if ours.table != 5 or "6" not in ours.match.partition(",")[0]:
        return False
    family, _, rest = ours.match.partition(",")
    twin = {"ipv6": "ip", "icmp6": "icmp", "tcp6": "tcp", "udp6": "udp"}[family]
    return ours._replace(match=f"{twin},{rest}") in case.recording.lines & case.ours


def _neighbour_discovery(ours: Line, case: Case) -> bool:
    passed = (ours.table, ours.priority) in {(5, 200), (6, 222)}
    return case.mode in {Mode.VLAN, Mode.VXLAN} and passed


def _ipv6_group(ours: Line, case: Case) -> bool:
    return (case.mode, ours.table) == (Mode.VLAN, 4) and ours.match.startswith("ipv6,")


def _ipv6_port(ours: Line, case: Case) -> bool:
    if case.mode is not Mode.VLROUTER or not ours.match.startswith("ipv6,"):
        return False
    return any(
        ours in {line._replace(priority=102), _on_vlan(line, case)} for line in case.recording.lines
    )


def _host_port_found(ours: Line, case: Case) -> bool:
    return any(line != _renumbered(line) == ours for line in case.recording.lines)


ADDED: Final[Mapping[str, Callable[[Line, Case], bool]]] = {
    "neighbours-by-switch": answers_neighbours,
    "source-guard": _guard,
    "rules-ipv6": _rule_for_ipv6,
    "rules-spare-neighbours": _neighbour_discovery,
    "vlan-ipv6-groups": _ipv6_group,
    "vlrouter-ipv6-on-vlans": _ipv6_port,
    "host-port-found-again": _host_port_found,
    "dns-mark": lambda ours, _case: _marked_dns(ours),
    "dns-of-host": _dns_of_host,
    "dns-by-ipv6": _dns_by_ipv6,
    "judged-at-both-ends": _judges_arrivals,
    "fragments": lambda ours, _case: judges_fragments(ours),
    "group-source": _group_source,
    "host-errors": hears_errors,
    "kube-policies": lambda ours, _case: 24 <= ours.table <= 31,
    "services-by-switch": translates_services,
    "tunnel-probes": probes_tunnels,
}
