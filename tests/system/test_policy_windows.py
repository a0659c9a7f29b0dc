"""No change of policies or pods opens a window through which a denied packet passes.

Forbidden datagrams are sent all the while rules, policies and pods come and go.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

from core.addresses import derived_mac
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Pod, new_sandbox
from tests.bed.waiting import eventually
from tests.system.families import FAMILY
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, addresses, applied, planes
from tests.system.rest import ask
from tests.system.shouting import Ear, Mouth, Shouting, neighbour, remember, said
from tests.system.watcher import Lane, unbroken

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.system,
    pytest.mark.usefixtures("no_pods_left"),
]

OPEN, FORBIDDEN = 7000, 7001
ROUNDS = 20
WAYS = ("in", "out")
DENY = ["--action=deny", "--protocol=udp", "--priority=1"]
ALLOW = ["--action=allow", "--protocol=udp", f"--port={OPEN}", "--priority=10"]
OTHER = ["--action=allow", "--protocol=tcp", "--port=99", "--priority=20"]


@pytest.fixture(scope="module", params=FWD_MODES)
def fwd_mode(request: pytest.FixtureRequest) -> str:
    """Say in which forwarding mode the cluster is."""
    return str(request.param)


@pytest.fixture(scope="module")
def bed(fwd_mode: str, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), fwd_mode) as bed:
        yield bed


@pytest.mark.parametrize("network", list(NETWORKS))
def test_rules_and_policies_come_and_go(bed: Bed, network: str) -> None:
    group, guard, twin = f"web-{network}", f"guard-{network}", f"twin-{network}"
    asker = bed.add_pod(bed.hosts[0], "asker", network=network)
    targets = [
        bed.add_pod(host, f"on-{host.label}", network=network, group=group) for host in bed.hosts
    ]
    bed.netctl("policy", "create", twin)
    for policy in (guard, twin):
        add_rules(bed, policy, {"1": DENY, "2": ALLOW})
    to = [(target, address) for target in targets for address in addresses(target)]
    passing = [Lane(asker, target, address, OPEN) for target, address in to]
    forbidden = [Lane(asker, target, address, FORBIDDEN) for target, address in to]
    with unbroken(passing, forbidden):
        for _ in range(3):
            bed.netctl("policy", "rule-add", "-d", "in", *OTHER, guard, "3")
            hold(bed, network, guard, twin)
            bed.netctl("policy", "rule-rm", guard, "3")
            hold(bed, network, twin)
            applied(bed)
            hold(bed, network, guard)
    bed.netctl("policy", "rm", twin)
    for number in ("1", "2"):
        bed.netctl("policy", "rule-rm", guard, number)


@pytest.mark.parametrize("network", list(NETWORKS))
def test_groups_come_to_share_their_policies_and_part(bed: Bed, network: str) -> None:
    """What is forbidden is so by either policy; rules of both lie between, for either group."""
    web, shop, guard, twin = (f"{name}-{network}" for name in ("web", "shop", "guard", "twin"))
    bed.netctl("policy", "create", twin)
    for policy in (guard, twin):
        add_rules(bed, policy, {"1": DENY, "2": ALLOW})
    bed.netctl("group", "create", "-p", guard, network, shop)
    asker = bed.add_pod(bed.hosts[0], "asker", network=network)
    targets = [
        bed.add_pod(host, f"of-{group}", network=network, group=group)
        for host, group in zip(bed.hosts, (web, shop), strict=True)
    ]
    to = [(target, address) for target in targets for address in addresses(target)]
    passing = [Lane(asker, target, address, OPEN) for target, address in to]
    forbidden = [Lane(asker, target, address, FORBIDDEN) for target, address in to]
    with unbroken(passing, forbidden):
        for _ in range(3):
            for group, policies in (
                *((shop, (twin,)), (web, (twin,))),
                *((web, (guard, twin)), (shop, (twin, guard)), (web, (guard,)), (shop, (guard,))),
            ):
                hold(bed, network, *policies, group=group)
                applied(bed)
    for pod in (asker, *targets):
        bed.delete_pod(pod)
    bed.netctl("group", "rm", shop)
    bed.netctl("policy", "rm", twin)
    for number in ("1", "2"):
        bed.netctl("policy", "rule-rm", guard, number)


def hold(bed: Bed, network: str, *policies: str, group: str = "") -> None:
    """Have these policies hold for a network's group, and no others."""
    name = group or f"web-{network}"
    body = {"tenantName": "default", "groupName": name, "networkName": network}
    path = f"/api/v1/endpointGroups/default:{name}/"
    answer = ask(bed, "PUT", path, {**body, "policies": list(policies)})
    assert answer.status == 200, answer.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Street:
    """A network with some pods; what comes to them at either port is heard."""

    bed: Bed
    network: str
    peers: list[Pod]
    routers: list[str | None]
    """For each peer the MAC that answers for pods' addresses, if they do not themselves."""
    invited: list[Ear]
    uninvited: list[Ear]

    def shouting(self, coming: tuple[str, ...]) -> Shouting:
        """Have the peers send to whom is to come."""
        four = next((one for one in coming if ":" not in one), "")
        six = next((one for one in coming if ":" in one), "")
        for address in coming:
            for peer, router in zip(self.peers, self.routers, strict=True):
                remember(peer, address, router or derived_mac(four, six))
        return Shouting(self.peers, coming, (OPEN, FORBIDDEN))


@pytest.mark.parametrize("network", list(NETWORKS))
def test_new_pods_are_judged_from_their_first_packet(bed: Bed, network: str) -> None:
    """Rules are posted just before the pod is added, while others send to where it will be."""
    peers = [bed.add_pod(host, f"peer-{host.label}", network=network) for host in bed.hosts]
    last = bed.add_pod(bed.hosts[0], "last", network=network)
    with street_of(bed, network, peers, last) as street:
        for number in range(ROUNDS):
            coming = following(last)
            bed.delete_pod(last)
            # twice on each host: a switch remembers for a while where an address has been
            last = comes(street, bed.hosts[number // 2 % 2], f"new-{number}", coming)


@pytest.mark.skipif(FAMILY not in {"", "dual"}, reason="about a pod with one address that is known")
@pytest.mark.parametrize("network", list(NETWORKS))
def test_an_agent_that_hears_of_nothing_lets_nothing_denied_through(
    bed: Bed, fwd_mode: str, network: str
) -> None:
    """Its switch takes the new pod's address for that of the one before, which is in no group.

    The other address has no record there, so nothing that is sent from it arrives. Datagrams to it
    do where networks are bridged, since the peer has its MAC address already; a router does not
    know the way. A pod of which both addresses are without a record waits for it altogether.
    """
    here, there = bed.hosts
    peer = bed.add_pod(here, "peer", network=network)
    last = bed.add_pod(there, "last", network=network)
    with street_of(bed, network, [peer], last) as street:
        applied(bed)
        bed.agents[0].pause()
        try:
            coming = following(last)
            bed.delete_pod(last)
            reached = coming if fwd_mode == "bridge" else coming[:1]
            new = comes(street, there, "new", coming, reached=reached, heard=coming[:1])
            newest = bed.add_pod(there, "newest", network=network, group=f"web-{network}")
            assert not {*addresses(newest)} & {*addresses(peer), *addresses(last)}
            for one, other, address in between(peer, newest):
                assert one.ping(address) is None, f"{one.name} reaches {other.name} at {address}"
        finally:
            bed.agents[0].resume()
    for pod in (new, newest):
        for one, other, address in between(peer, pod):
            eventually(partial(one.ping, address), f"{one.name} reaches {other.name} at {address}")


def between(pod: Pod, peer: Pod) -> list[tuple[Pod, Pod, str]]:
    """List who reaches whom and at which address, there and back."""
    return [(a, b, to) for a, b in ((pod, peer), (peer, pod)) for to in addresses(b)]


@contextmanager
def street_of(bed: Bed, network: str, peers: list[Pod], last: Pod) -> Iterator[Street]:
    """Open one port to whom is in the network's group, from there, and the ears of its peers."""
    macs = [neighbour(peer, last.address) for peer in peers]
    routers = [None if mac == last.mac else mac for mac in macs]
    for way in WAYS:
        post_rule(bed, network, f"open-{way}", direction=way, action="allow", port=OPEN)
    with ExitStack() as doors:
        invited, uninvited = (
            [doors.enter_context(Ear(peer.namespace, port)) for peer in peers]
            for port in (OPEN, FORBIDDEN)
        )
        yield Street(
            bed=bed,
            network=network,
            peers=peers,
            routers=routers,
            invited=invited,
            uninvited=uninvited,
        )
    for way in WAYS:
        withdraw_rule(bed, network, f"open-{way}")


def comes(
    street: Street,
    host: Host,
    name: str,
    coming: tuple[str, ...],
    *,
    reached: Sequence[str] | None = None,
    heard: Sequence[str] | None = None,
) -> Pod:
    """Add a pod that is being sent to, and that sends, at once.

    Its peers reach it at all of its addresses, or only at those `reached`; they hear what it sends
    from all of its addresses, or only from those `heard`.
    """
    bed = street.bed
    namespace = Namespace(fresh_name(name))
    sandbox = new_sandbox(name, namespace)
    with ExitStack() as doors:
        invited = doors.enter_context(Ear(namespace, OPEN))
        uninvited = doors.enter_context(Ear(namespace, FORBIDDEN))
        doors.enter_context(street.shouting(coming))
        for way in WAYS:
            post_rule(bed, street.network, f"deny-{way}", direction=way, action="deny", priority=1)
        conf = bed.conf(host, network=street.network, group=f"web-{street.network}")
        pod = bed.runtime.add(host, conf, sandbox)
        bed.pods.append(pod)
        assert addresses(pod) == coming, "they send to another one"
        to = [address for peer in street.peers for address in addresses(peer)]
        mouth = doors.enter_context(Mouth(pod, to, (FORBIDDEN, OPEN)))
        own = {said(name, address) for address in heard or coming}
        unheard = {said(name, address) for address in coming} - own
        others = {
            said(peer.name, address) for peer in street.peers for address in reached or coming
        }

        def all_heard() -> bool:
            mouth.say()
            return invited.heard() >= others and all(ear.heard() >= own for ear in street.invited)

        eventually(all_heard, f"{name} and its peers hear what is allowed")
        assert invited.heard() == others, f"{name} on {host.label} hears what cannot reach it"
        for ear in street.invited:
            assert not ear.heard() & unheard, f"{name} on {host.label} sends from unknown addresses"
        for ear in street.uninvited:
            assert ear.heard() == set(), f"{name} on {host.label} sends"
        assert uninvited.heard() == set(), f"{name} on {host.label} hears"
    for way in WAYS:
        withdraw_rule(bed, street.network, f"deny-{way}")
    return pod


def following(pod: Pod) -> tuple[str, ...]:
    """Return the addresses a pod will get that follows this one: the lowest free, and the next."""
    found = map(ip_address, addresses(pod))
    return tuple(str(one if one.version == 4 else one + 1) for one in found)


def withdraw_rule(bed: Bed, network: str, number: str) -> None:
    """Delete a rule of a network's policy."""
    answer = ask(bed, "DELETE", f"/api/v1/rules/default:guard-{network}:{number}/")
    assert answer.status == 200, answer.text


def post_rule(bed: Bed, network: str, number: str, **words: object) -> None:
    """Post a rule for UDP; without netctl, for what follows shall follow at once."""
    policy = f"guard-{network}"
    rule = {"tenantName": "default", "policyName": policy, "ruleId": number, "protocol": "udp"}
    path = f"/api/v1/rules/default:{policy}:{number}/"
    answer = ask(bed, "POST", path, {**rule, "priority": 10, **words})
    assert answer.status == 200, answer.text
