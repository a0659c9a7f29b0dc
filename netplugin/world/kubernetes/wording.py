"""Rules of Kubernetes' policies in words: "TCP 80 from pods app=web of namespace blue". Pure.

In come rules as they were read (`objects`, `cluster_policies`); out go texts for people, whose
selectors are written as kubectl writes them. Next is `judging_rules`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from netplugin.world.kubernetes.policy_objects import (
    AdminPeer,
    AdminPort,
    AdminRule,
    Egress,
    IpBlock,
    PolicyIngress,
    PolicyPeer,
    PolicyPort,
)
from netplugin.world.kubernetes.selectors import Operator, Requirement, Selector

MAX_WORDS: Final = 1000
"""Characters of a rule's text; more is cut."""

_NAME: Final = "kubernetes.io/metadata.name"
"""The label of a namespace that is its name."""
_OPERATORS: Final = {Operator.IN: "in", Operator.NOT_IN: "notin"}


def rule_words(rule: PolicyIngress | Egress, namespace: str, *, ingress: bool) -> str:
    """Return a NetworkPolicy's rule; `namespace` is the policy's."""
    peers = ", ".join(_peer(one, namespace) for one in rule.peers) or "anybody"
    return _words(map(_port, rule.ports), peers, ingress=ingress)


def admin_rule_words(rule: AdminRule, *, ingress: bool) -> str:
    """Return an administrator's rule. One that fails closed may have nobody as its peers."""
    peers = ", ".join(map(_admin_peer, (*rule.sources, *rule.destinations))) or "nobody"
    return _words(map(_admin_port, rule.ports), peers, ingress=ingress)


def _words(ports: Iterable[str], peers: str, *, ingress: bool) -> str:
    way = "from" if ingress else "to"
    text = f"{', '.join(ports) or 'everything'} {way} {peers}"
    return text if len(text) <= MAX_WORDS else f"{text[: MAX_WORDS - 3]}..."


# -- peers -----------------------------------------------------------------------------------------


def _peer(peer: PolicyPeer, namespace: str) -> str:
    if peer.block is not None:
        return _block(peer.block)
    where = f"namespace {namespace}" if peer.namespaces is None else _namespaces(peer.namespaces)
    return _pods(peer.pods or Selector(), where)


def _admin_peer(peer: AdminPeer) -> str:
    if peer.namespaces is not None:
        return _pods(Selector(), _namespaces(peer.namespaces))
    if peer.pods is not None:
        return _pods(peer.pods.pods, _namespaces(peer.pods.namespaces))
    if peer.nodes is not None:
        return f"nodes {text}" if (text := selector_words(peer.nodes)) else "all nodes"
    return ", ".join(map(str, peer.networks or ())) or "nobody"


def _pods(pods: Selector, where: str) -> str:
    text = selector_words(pods)
    return f"pods {text} of {where}" if text else f"all pods of {where}"


def _namespaces(selector: Selector) -> str:
    if not selector.match_expressions and set(selector.match_labels) == {_NAME}:
        return f"namespace {selector.match_labels[_NAME]}"
    text = selector_words(selector)
    return f"namespaces {text}" if text else "all namespaces"


def _block(block: IpBlock) -> str:
    holes = ", ".join(map(str, block.excluded))
    return f"{block.cidr} except {holes}" if holes else str(block.cidr)


def selector_words(selector: Selector) -> str:
    """Return a selector as kubectl writes it; "" for one that selects everything."""
    return ",".join(_requirements(selector))


def _requirements(selector: Selector) -> Iterator[str]:
    for name, value in selector.match_labels.items():
        yield f"{name}={value}"
    for one in selector.match_expressions:
        yield _requirement(one)


def _requirement(one: Requirement) -> str:
    if one.operator in _OPERATORS:
        return f"{one.key} {_OPERATORS[one.operator]} ({','.join(one.values)})"
    return one.key if one.operator is Operator.EXISTS else f"!{one.key}"


# -- ports -----------------------------------------------------------------------------------------


def _port(port: PolicyPort) -> str:
    if port.port is None:
        return port.protocol
    return f"{port.protocol} {port.port}{f'-{port.end}' if port.end else ''}"


def _admin_port(port: AdminPort) -> str:
    if port.number is not None:
        return f"{port.number.protocol} {port.number.port}"
    if port.range is not None:
        return f"{port.range.protocol} {port.range.start}-{port.range.end}"
    return f"port {port.named}"
