"""Sums up what agents say of the hits of rules, by the rules that users wrote. Pure.

In come the answers of the agents' `/inspect/rules` (`netplugin.diagnostics.rule_hits`) and the
view; out comes `GET /api/v2/rule-hits`. An answer that cannot be read counts as none.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from contivmodel import answers
from contivmodel.objects import Rule
from core.errors import AgentUnavailable
from netmaster import agent_answers
from netmaster.agent_answers import Count, Name, Text
from netmaster.plan.show import ofnet_rules
from netmaster.view import View


class RuleCounts(TypedDict):
    """What a rule counted on a host."""

    packets: answers.Count
    bytes: answers.Count


class _Total(RuleCounts):
    hosts: dict[str, RuleCounts]


class HitsOfRule(_Total):
    """How often a rule applied."""

    rule: str


class HitsOfKubernetes(_Total):
    """How often a verdict of Kubernetes' policies applied."""

    rule: str
    policies: list[str]
    verdict: str


class RuleHits(TypedDict):
    """How often rules applied, over all hosts."""

    items: list[HitsOfRule]
    kubernetes: list[HitsOfKubernetes]
    unreachable: Annotated[
        dict[str, str],
        Field(description="the hosts whose counters are missing, with the reason"),
    ]


class _Judged(TypedDict):
    rule: Name
    policies: list[Name]
    verdict: Name
    packets: Count
    bytes: Count


class _Hits(TypedDict):
    rules: dict[Name, tuple[Count, Count]]
    kubernetes: list[_Judged]
    missing: dict[Name, Text]


_ANSWER: Final = TypeAdapter(_Hits)


def hits(
    view: View,
    replies: Mapping[str, bytes],
    unreachable: Mapping[str, str],
    *,
    tenant: str = "",
    policy: str = "",
    tenants: Collection[str] | None = None,
) -> RuleHits:
    """Return the hits of every rule of a tenant and policy, "" for any.

    `replies` is by host, `unreachable` has the hosts without an answer, with the reason. `tenants`
    are those the client may see, None for all; only who may see all is shown rules of Kubernetes.
    """
    # Policies are applied by the sender's host, and again by the receiver's if it knows the sender
    # (ADR 6), so that a packet between two hosts counts on both. The sum by host shows which.
    read, unread = _read(replies)
    by_rule: dict[str, dict[str, RuleCounts]] = {
        key: {}
        for key, rule in view.objects[Rule.kind].items()
        if isinstance(rule, Rule)
        and rule.tenant_name in ((tenant,) if tenant else (rule.tenant_name,))
        and rule.policy_name in ((policy,) if policy else (rule.policy_name,))
        and (tenants is None or rule.tenant_name in tenants)
    }
    origins = ofnet_rules.origins(view)
    for host, answer in read.items():
        for derived, (packets, size) in answer["rules"].items():
            counted = by_rule.get(origins.get(derived, ""))
            if counted is not None:
                here = counted.setdefault(host, {"packets": 0, "bytes": 0})
                here["packets"] += packets
                here["bytes"] += size
    return {
        "items": [{"rule": key, **_total(hosts)} for key, hosts in sorted(by_rule.items())],
        "kubernetes": _of_kubernetes(read) if tenants is None else [],
        "unreachable": dict(sorted({**unreachable, **unread}.items())),
    }


def _read(replies: Mapping[str, bytes]) -> tuple[dict[str, _Hits], dict[str, str]]:
    """Return the answers, and why hosts have none; a host with a missing bridge counts as such."""
    read, unread = {}, {}
    for host, body in replies.items():
        try:
            read[host] = answer = agent_answers.read(host, "an answer about rules", body, _ANSWER)
        except AgentUnavailable as exc:
            unread[host] = str(exc)
            continue
        if answer["missing"]:
            unread[host] = "; ".join(
                f"{bridge}: {why}" for bridge, why in answer["missing"].items()
            )
    return read, unread


def _of_kubernetes(read: Mapping[str, _Hits]) -> list[HitsOfKubernetes]:
    found: dict[tuple[str, tuple[str, ...], str], dict[str, RuleCounts]] = {}
    for host, answer in read.items():
        for one in answer["kubernetes"]:
            counted = found.setdefault((one["rule"], tuple(one["policies"]), one["verdict"]), {})
            counted[host] = {"packets": one["packets"], "bytes": one["bytes"]}
    return [
        {"rule": rule, "policies": list(policies), "verdict": verdict, **_total(hosts)}
        for (rule, policies, verdict), hosts in sorted(found.items())
    ]


def _total(hosts: Mapping[str, RuleCounts]) -> _Total:
    return {
        "packets": sum(one["packets"] for one in hosts.values()),
        "bytes": sum(one["bytes"] for one in hosts.values()),
        "hosts": dict(hosts),
    }
