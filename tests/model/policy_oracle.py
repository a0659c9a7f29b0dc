"""What the rules of policies mean for two pods: an oracle independent of switch and code.

Written from the meaning of rules. A rule belongs to the groups that its policy holds for. One of
direction `in` is about packets to them, one of direction `out` about packets from them; what it
names (a group, a network, addresses) is the other end. With a port, of TCP or UDP alone, it is
about that port of whoever is asked, and about the answers from there. A rule for all of TCP is
about packets that open a connection. The greatest priority decides; nothing said means allowed. A
rule under audit decides nothing, as if it were not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, Literal

SYN: Final = 0x02
ACK: Final = 0x10
_NUMBERS: Final = {"6": "tcp", "17": "udp", "1": "icmp"}
_WITH_PORTS: Final = {"tcp", "udp"}


class Outcome(StrEnum):
    """What becomes of a packet; rules of one priority that contradict each other leave it open."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRule:
    """A rule in the words of its user; `group`, `network` and `address` are of the other end."""

    name: str
    policy: str = "p1"
    direction: Literal["in", "out"]
    action: Literal["allow", "deny"]
    priority: int = 1
    protocol: str = ""
    port: int = 0
    group: str = ""
    network: str = ""
    address: str = ""
    audit: bool = False


@dataclass(frozen=True, slots=True)
class Subnet:
    """The addresses of a network."""

    four: IPv4Network
    six: IPv6Network


@dataclass(frozen=True, slots=True)
class Pod:
    """An endpoint with its group, "" for none."""

    group: str
    four: IPv4Address
    six: IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What a packet is beside its two ends; `icmp` is ICMPv6 among IPv6 addresses."""

    family: Literal[4, 6] = 4
    protocol: str = "tcp"
    source_port: int = 0
    destination_port: int = 0
    flags: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCluster:
    """Which policies hold for which groups, the networks, and all rules."""

    policies: Mapping[str, tuple[str, ...]]
    networks: Mapping[str, Subnet]
    rules: tuple[UserRule, ...] = field(default=())


def outcome(cluster: PolicyCluster, sender: Pod, receiver: Pod, talk: Talk) -> Outcome:
    """Return what becomes of a packet from one pod to another."""
    enforced = (rule for rule in cluster.rules if not rule.audit)
    said = [rule for rule in enforced if concerns(cluster, rule, sender, receiver, talk)]
    highest = max((rule.priority for rule in said), default=0)
    actions = {rule.action for rule in said if rule.priority == highest}
    if len(actions) > 1:
        return Outcome.UNDEFINED
    return Outcome.DENIED if "deny" in actions else Outcome.ALLOWED


def concerns(
    cluster: PolicyCluster, rule: UserRule, sender: Pod, receiver: Pod, talk: Talk
) -> bool:
    """Return whether a rule applies to a packet."""
    return _asks(cluster, rule, sender, receiver, talk) or _answers(
        cluster, rule, sender, receiver, talk
    )


def _asks(cluster: PolicyCluster, rule: UserRule, asker: Pod, asked: Pod, talk: Talk) -> bool:
    if not _is_of(rule.protocol, talk) or not _are_ends(cluster, rule, asker, asked, talk):
        return False
    if _has_port(rule):
        return talk.destination_port == rule.port
    return talk.protocol != "tcp" or not rule.protocol or talk.flags & (SYN | ACK) == SYN


def _answers(cluster: PolicyCluster, rule: UserRule, asked: Pod, asker: Pod, talk: Talk) -> bool:
    return (
        _has_port(rule)
        and _is_of(rule.protocol, talk)
        and _are_ends(cluster, rule, asker, asked, talk)
        and talk.source_port == rule.port
    )


def _are_ends(cluster: PolicyCluster, rule: UserRule, asker: Pod, asked: Pod, talk: Talk) -> bool:
    own, other = (asked, asker) if rule.direction == "in" else (asker, asked)
    held = rule.policy in cluster.policies.get(own.group, ())
    return held and _is_other_end(cluster, rule, other, talk)


def _is_other_end(cluster: PolicyCluster, rule: UserRule, pod: Pod, talk: Talk) -> bool:
    if rule.group and (rule.group not in cluster.policies or pod.group != rule.group):
        return False
    if rule.network:
        subnet = cluster.networks[rule.network]
        return pod.four in subnet.four if talk.family == 4 else pod.six in subnet.six
    return not rule.address or _stands_for(rule.address, pod.four if talk.family == 4 else pod.six)


def _stands_for(text: str, address: IPv4Address | IPv6Address) -> bool:
    """Return whether `a`, `a/length`, or `a-n` (up to the last octet n) has an address in it."""
    if (":" in text) != (address.version == 6):
        return False
    if "/" in text or address.version == 6:
        return address in ip_network(text, strict=False)
    first, _, last = text.partition("-")
    end = f"{first.rpartition('.')[0]}.{last}" if last else first
    return IPv4Address(first) <= address <= IPv4Address(end)


def _has_port(rule: UserRule) -> bool:
    return bool(rule.port) and _name(rule.protocol) in _WITH_PORTS


def _is_of(protocol: str, talk: Talk) -> bool:
    return not protocol or _name(protocol) == talk.protocol


def _name(protocol: str) -> str:
    return _NUMBERS.get(protocol, protocol)
