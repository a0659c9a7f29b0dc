"""Sums up what agents say of the hits of rules, by the rules that users wrote. Pure.

In come the answers of the agents' `/inspect/rules` (`netplugin.diagnostics.rule_hits`) and the
view; out comes `GET /api/v2/rule-hits`. An answer that cannot be read counts as none.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from contivmodel.objects import Rule
from netmaster.plan.show import ofnet_rules
from netmaster.view import View

Counts = dict[str, int]


def hits(
    view: View,
    said: Mapping[str, bytes],
    silent: Mapping[str, str],
    *,
    tenant: str = "",
    policy: str = "",
    tenants: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the hits of every rule of a tenant and policy, "" for any.

    `said` is by host, `silent` has the hosts without an answer, with the reason. `tenants` are
    those the client may see, None for all; only who may see all is shown rules of Kubernetes.
    """
    # Policies are applied by the sender's host, and again by the receiver's if it knows the sender
    # (ADR 6), so that a packet between two hosts counts on both. The sum by host shows which.
    read, unread = _read(said)
    by_rule: dict[str, dict[str, Counts]] = {
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
        "silent": dict(sorted({**silent, **unread}.items())),
    }


def _read(said: Mapping[str, bytes]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the answers, and why hosts have none; a bridge that is missing makes one silent."""
    read, unread = {}, {}
    for host, body in said.items():
        try:
            answer = json.loads(body)
            rules = {str(one): (int(p), int(b)) for one, (p, b) in answer["rules"].items()}
            judged = [_judged(one) for one in answer["kubernetes"]]
            missing = {str(bridge): str(why) for bridge, why in answer["missing"].items()}
        except (ValueError, TypeError, LookupError, AttributeError):
            unread[host] = f"host {host}: not an answer about rules: {body[:80]!r}"
            continue
        read[host] = {"rules": rules, "kubernetes": judged}
        if missing:
            unread[host] = "; ".join(f"{bridge}: {why}" for bridge, why in missing.items())
    return read, unread


def _judged(one: Mapping[str, Any]) -> tuple[str, tuple[str, ...], str, int, int]:
    policies = tuple(str(policy) for policy in one["policies"])
    return str(one["rule"]), policies, str(one["verdict"]), int(one["packets"]), int(one["bytes"])


def _of_kubernetes(read: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: dict[tuple[str, tuple[str, ...], str], dict[str, Counts]] = {}
    for host, answer in read.items():
        for rule, policies, verdict, packets, size in answer["kubernetes"]:
            counted = found.setdefault((rule, policies, verdict), {})
            counted[host] = {"packets": packets, "bytes": size}
    return [
        {"rule": rule, "policies": list(policies), "verdict": verdict, **_total(hosts)}
        for (rule, policies, verdict), hosts in sorted(found.items())
    ]


def _total(hosts: Mapping[str, Counts]) -> dict[str, Any]:
    return {
        "packets": sum(one["packets"] for one in hosts.values()),
        "bytes": sum(one["bytes"] for one in hosts.values()),
        "hosts": dict(hosts),
    }
