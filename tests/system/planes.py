"""A cluster in one of the forwarding modes, with a network of either encapsulation.

A host always has two bridges, so that one cluster for each forwarding mode shows two pipelines.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.families import subnets
from tests.system.rest import ask

FWD_MODES = ("bridge", "routing")
NETWORKS = {
    "vxlan": ("10.60.0.0/24", "10.60.0.1", "fd00:60::/64", "fd00:60::1", []),
    "vlan": ("10.61.0.0/24", "10.61.0.1", "fd00:61::/64", "fd00:61::1", ["--pkt-tag=61"]),
}
"""Name, which is the encapsulation as well -> how the network is made."""

BRIDGES = {"vxlan": Bridge.VXLAN.value, "vlan": Bridge.VLAN.value}
"""The bridge of each network."""

Rules = Mapping[str, list[str]]
"""Number -> the words that say what a rule allows or denies."""
Flags = Mapping[str, Sequence[str]]
NO_FLAGS: Flags = MappingProxyType({})


FAMILIES = ("v4", "dual", "v6")
"""Of which addresses the networks are."""


@contextmanager
def planes(
    directory: Path,
    fwd_mode: str,
    *,
    family: str = "dual",
    hosts: int = 2,
    flags: Flags = NO_FLAGS,
    cards: Sequence[str] = (),
    six: bool = False,
    secure: bool = False,
) -> Iterator[Bed]:
    """Run a cluster; each network has a group `web-<network>` with a policy `guard-<network>`.

    `six`: no machine has an address of IPv4. `secure`: the daemons speak TLS.
    """
    directory.mkdir()
    bed = Bed(
        directory, hosts, fwd_mode=fwd_mode, flags=flags, cards=cards, six=six, secure=secure
    ).start()
    try:
        add_networks(bed, family)
        yield bed
    finally:
        bed.stop()


def add_networks(bed: Bed, family: str = "dual") -> None:
    """Create the networks, each with a group `web-<network>` and its policy `guard-<network>`."""
    for name, (subnet, gateway, subnet6, gateway6, more) in NETWORKS.items():
        words = subnets(subnet, gateway, subnet6, gateway6, usual=family)
        bed.netctl("net", "create", *words, f"--encap={name}", *more, name)
        bed.netctl("policy", "create", f"guard-{name}")
        bed.netctl("group", "create", "-p", f"guard-{name}", name, f"web-{name}")


def add_rules(bed: Bed, policy: str, rules: Rules) -> None:
    """Add rules for packets into the groups of a policy; return when all hosts have them."""
    for number, words in rules.items():
        bed.netctl("policy", "rule-add", "-d", "in", *words, policy, number)
    applied(bed)


def applied(bed: Bed) -> None:
    """Return when every host whose agent runs has applied all that was changed until now."""
    eventually(lambda: is_applied(bed), "hosts have applied all that was changed")


def is_applied(bed: Bed) -> bool:
    """Say whether every host whose agent runs has applied all that was changed until now.

    `netctl host applied` leaves out a host whose agent is not registered, not even yet.
    """
    answer = ask(bed, "GET", "/hosts")
    shown = {one["label"]: one["applied"] for one in answer.json()} if answer.status == 200 else {}
    running = [host for host, agent in zip(bed.hosts, bed.agents, strict=True) if agent.running]
    return all(shown.get(host.label, False) for host in running)


def switches_lead(bed: Bed, network: str, services: Collection[str], target: str) -> None:
    """Return when each host's switch sends what pods send to some services to their only target.

    Until then a client is refused at once: some attempts in a row prove nothing. Rules in a host's
    kernel are others, and come at another time.
    """
    for host in bed.hosts:
        leads = partial(_leads, host, network, services, target)
        eventually(leads, f"the switch of {host.label} leads to {target}")


def _leads(host: Host, network: str, services: Collection[str], target: str) -> bool:
    shown = host.ovs.ofctl("dump-flows", BRIDGES[network]).splitlines()
    leading = [line for line in shown if f"nat(dst={target})" in line]
    return all(any(f"_dst={service}," in line for line in leading) for service in services)


def addresses(pod: Pod) -> tuple[str, ...]:
    """Return a pod's addresses, IPv4 first."""
    return tuple(str(one["address"]).partition("/")[0] for one in pod.result["ips"])


@contextmanager
def client_and_server(bed: Bed, network: str, test: str) -> Iterator[tuple[Pod, Pod]]:
    """Have a client on the first host and a server on the second, until the end."""
    made = [
        bed.add_pod(host, f"{name}-{test}", network=network, group=f"web-{network}")
        for host, name in zip(bed.hosts, ("client", "server"), strict=True)
    ]
    try:
        yield made[0], made[1]
    finally:
        for pod in made:
            bed.delete_pod(pod)


def lasting(bed: Bed, found: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses that pods resolve also while the agent of their host is away.

    A datapath without the ND extension leaves answers for IPv6 to the agent. Not even those known
    last: Linux forgets a neighbour that answers no probe for some eight seconds.
    """
    answered = all(host.ovs.has_nd_extension(one) for host in bed.hosts for one in BRIDGES.values())
    return tuple(one for one in found if answered or ":" not in one)
