"""What a cluster holds of its pods: addresses and records, links, switch ports, flows, journals.

In comes a running bed; out comes a `Footprint`, a value that can be compared, so that a test says
"nothing is left" by taking one before and one after. What is still being removed behind an answer
is waited for by `eventually_same`. Must not know how any of it comes about.
"""

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from netplugin.pods.registry.journal import PROBE
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.waiting import WITHIN, eventually
from tests.system.planes import is_applied

BRIDGES = ("contivVxlanBridge", "contivVlanBridge")
TUNNELS = "vxlan_sys_4789"
STORED = ("/contiv.io/ipam/", "/contiv.io/state/eps/")
PASSING = (
    *("/contiv.io/lock/", "/contiv.io/service/"),
    *("/contiv.io/commit/", "/contiv.io/compaction"),
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Everything pods leave traces in; each part a set of lines that say what and where."""

    stored: frozenset[str]
    inspected: frozenset[str]
    links: frozenset[str]
    ports: frozenset[str]
    flows: frozenset[str]
    journal: frozenset[str]

    def difference(self, other: "Footprint") -> list[str]:
        """List the lines only one of the two has, `+` for the other's."""
        lines = []
        for part in fields(Footprint):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            lines += [f"- {part.name}: {line}" for line in sorted(mine - theirs)]
            lines += [f"+ {part.name}: {line}" for line in sorted(theirs - mine)]
        return lines


def footprint(bed: Bed) -> Footprint:
    """Take the cluster's footprint; store, netmaster and switches must be up."""
    return Footprint(
        stored=stored(bed),
        inspected=frozenset(_inspected(bed)),
        links=_everywhere(bed, _links),
        ports=_everywhere(bed, _ports),
        flows=_everywhere(bed, flows),
        journal=_everywhere(bed, _journal),
    )


def stored(bed: Bed) -> frozenset[str]:
    """Read what the store holds of pods; netmaster need not be up."""
    entries = [entry for prefix in STORED for entry in bed.store.entries(prefix).items()]
    return frozenset(f"{key} {value.decode()}" for key, value in entries)


def eventually_same(bed: Bed, before: Footprint, *, within: float = WITHIN) -> None:
    """Wait until the cluster holds what it held `before`; fail with the difference."""
    last: list[str] = []

    def same() -> bool:
        last[:] = before.difference(footprint(bed))
        return not last

    try:
        eventually(same, "the footprint of before", within=within)
    except TimeoutError as exc:
        raise AssertionError("\n".join([str(exc), *last])) from exc


def steady(bed: Bed) -> Footprint:
    """Take the footprint once what came before is finished.

    The hosts have then applied all that was changed, which is no matter of two looks, and two
    footprints in a row are the same, for instance after a change that is in no store.
    """
    last: list[Footprint] = []

    def same() -> bool:
        if not is_applied(bed):
            last.clear()
            return False
        last.append(footprint(bed))
        return len(last) > 1 and last[-1] == last[-2]

    eventually(same, "a footprint that stays")
    return last[-1]


def lasting_keys(bed: Bed) -> dict[str, bytes]:
    """Read all of the store but leases and the marks of commits and compactions."""
    entries = bed.store.entries("/contiv.io/")
    return {key: value for key, value in entries.items() if not key.startswith(PASSING)}


def flows(host: Host) -> list[str]:
    """List a host's flows with their cookies, without what time, packets and restarts change.

    The kernel's datapath gets a device for tunnels with each start of Open vSwitch, of another MAC
    and so of another address; flows for the one it had before are listed.
    """
    words = ["ip", "-json", "-6", "address", "show", "dev", TUNNELS]
    shown = json.loads(host.namespace.run(words, check=False).stdout or "[]")
    own = [one["local"] for link in shown for one in link.get("addr_info", ())]
    return [
        f"{bridge} {line.strip()}"
        for bridge in BRIDGES
        for line in host.ovs.ofctl("--no-stats", "dump-flows", bridge).splitlines()
        if "actions=" in line and not any(f"ipv6_dst={one} " in line for one in own)
    ]


def flow_ages(host: Host) -> dict[str, float]:
    """Say for each flow how long ago it was installed; a flow that is written anew starts at 0."""
    ages = {}
    for bridge in BRIDGES:
        for line in host.ovs.ofctl("dump-flows", bridge).splitlines():
            found = re.match(
                r" *(cookie=\S+) duration=([\d.]+)s, (table=\S+) .*?(\S+ actions=.*)", line
            )
            if found:
                ages[f"{bridge} {found[1]} {found[3]} {found[4]}"] = float(found[2])
    return ages


def inspect(bed: Bed, tenant: str, network: str) -> dict[str, Any]:
    """Ask netmaster for a network's addresses and endpoints."""
    oper = json.loads(_get(bed, f"/api/v1/inspect/networks/{tenant}:{network}/"))["Oper"]
    return dict(oper)


def _inspected(bed: Bed) -> list[str]:
    shown = ("allocatedIPAddresses", "allocatedAddressesCount", "numEndpoints")
    lines = []
    for listed in json.loads(_get(bed, "/api/v1/networks/")) or []:
        oper = inspect(bed, listed["tenantName"], listed["networkName"])
        lines.append(f"{listed['key']} { {name: oper.get(name) for name in shown} }")
    return lines


def _get(bed: Bed, path: str) -> bytes:
    """Return netmaster's answer, once it leads: a very busy one may lose its lock for a moment."""

    def answer() -> bytes:
        status, body = http_request(f"{bed.url}{path}", namespace=bed.fabric.namespace)
        return body if status == 200 else b""

    return eventually(answer, f"netmaster answers {path}")


def _everywhere(bed: Bed, look: Any) -> frozenset[str]:
    return frozenset(f"{host.label} {line}" for host in bed.hosts for line in look(host))


def _links(host: Host) -> list[str]:
    links = json.loads(host.namespace.run(["ip", "-json", "link", "show"]).stdout)
    return [link["ifname"] for link in links]


def _ports(host: Host) -> list[str]:
    return [
        f"{bridge} {port}"
        for bridge in BRIDGES
        for port in host.ovs.vsctl("list-ports", bridge).split()
    ]


def _journal(host: Host) -> list[str]:
    names = {path.name for path in (host.dir / "data" / "endpoints").iterdir()}
    return sorted(names - {PROBE})
