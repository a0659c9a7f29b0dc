"""GET /inspect/kubernetes-rules: what Kubernetes' policies and services say of this host's pods.

In come the policies that judge the pods (`netplugin.world.kubernetes.judging_rules`), with the
counters of their flows, and the services that lead to them (`netplugin.world.services_of_pods`).
netmaster merges what all hosts say (`netmaster.plan.show.kubernetes_rules`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import SwitchRefused, SwitchUnavailable
from netplugin.world.kubernetes.judging_rules import JudgingRule, judging_rules
from netplugin.world.kubernetes.kube_policies import KubePolicies
from netplugin.world.kubernetes.kube_services import KubeService
from netplugin.world.kubernetes.rules import INGRESS_STAGES, PolicyPod, whole_rule
from netplugin.world.services_of_pods import ServiceOfPods, services_of_pods
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, PolicyMatch, PolicyStage

PATH: Final = "/inspect/kubernetes-rules"
MAX_ITEMS: Final = 1000
"""Rules that are reported, and services."""
MAX_NAMED: Final = 20
"""Pods that are named of a rule or of a service, and addresses and ports of a service.

The others are counted.
"""

_TIERS: Final = {
    PolicyStage.INGRESS_ADMIN: "admin",
    PolicyStage.EGRESS_ADMIN: "admin",
    PolicyStage.INGRESS: "network",
    PolicyStage.EGRESS: "network",
    PolicyStage.INGRESS_BASELINE: "baseline",
    PolicyStage.EGRESS_BASELINE: "baseline",
}

Services = Callable[[], Iterable[KubeService]]
Json = dict[str, Any]


def routes(
    agents: Mapping[Bridge, BridgeAgent], policies: KubePolicies, services: Services
) -> list[web.RouteDef]:
    """Return the route: about all pods here, or by `namespace` and `pod` about some."""

    async def answer(request: web.Request) -> web.Response:
        asked = request.query
        found = await report(
            agents, policies, services, asked.get("namespace", ""), asked.get("pod", "")
        )
        body = await asyncio.to_thread(dumps, found)
        return web.Response(body=body, content_type="application/json")

    return [web.get(PATH, answer)]


async def report(
    agents: Mapping[Bridge, BridgeAgent],
    policies: KubePolicies,
    services: Services,
    namespace: str = "",
    name: str = "",
    *,
    most: int = MAX_ITEMS,
) -> Json:
    """Return the rules and services of the pods here, "" for those of any namespace or name.

    `most` of each are reported.

    `complete` says whether these are all. `missing` names the bridges that did not tell their
    counters, with the reason.
    """

    def wanted(pod: PolicyPod) -> bool:
        return namespace in {"", pod.namespace} and name in {"", pod.name}

    counted, missing = await _counted(agents)
    counts = _Counts(counted, policies)
    rules = judging_rules(policies, wanted)
    pods = [pod for pod in policies.known.every_pod() if pod.local and wanted(pod)]
    leading = list(islice(services_of_pods(services(), pods), most + 1))
    return {
        "rules": [_rule(one, counts.of(one)) for one in rules[:most]],
        "services": [_service(one) for one in leading[:most]],
        "complete": max(len(rules), len(leading)) <= most,
        "missing": missing,
    }


async def _counted(
    agents: Mapping[Bridge, BridgeAgent],
) -> tuple[Counter[PolicyMatch], dict[str, str]]:
    counted, missing = Counter[PolicyMatch](), {}
    for bridge, agent in agents.items():
        try:
            hits = await agent.hits(ObjectKind.POLICY_ENTRY)
        except (SwitchUnavailable, SwitchRefused) as exc:
            missing[str(bridge)] = str(exc)
            continue
        for name, of_entry in hits.items():
            entry = agent.world.policy_entries.get(name)
            if entry is not None and entry.verdict is not None:
                counted[entry.match] += of_entry.packets
    return counted, missing


class _Counts:
    """The packets that flows with verdicts counted: the first of each connection."""

    # A rule with conjunctions is counted whole. Others share flows with all that say the same of
    # the same pod: what allows it everything, what isolates it.

    def __init__(self, counted: Mapping[PolicyMatch, int], policies: KubePolicies) -> None:
        self._by_rule = Counter[str]()
        self._by_end = Counter[tuple[PolicyStage, int, int, object]]()
        for match, packets in counted.items():
            rule, _ = policies.origin(match)
            self._by_rule[whole_rule(rule)] += packets
            end = match.destination if match.stage in INGRESS_STAGES else match.source
            self._by_end[match.stage, match.priority, match.vrf, end] += packets

    def of(self, rule: JudgingRule) -> int:
        """Return the packets that a rule judged."""
        if rule.level:
            return sum(
                self._by_end[rule.stage, rule.level, *address]
                for pod in rule.pods
                for address in pod.addresses
            )
        return self._by_rule[rule.name]


def _rule(one: JudgingRule, packets: int) -> Json:
    return {
        "policies": list(one.policies),
        "direction": "ingress" if one.stage in INGRESS_STAGES else "egress",
        "tier": _TIERS[one.stage],
        "order": one.order,
        "action": one.verdict.value,
        "rule": one.words,
        **_pods(one.pods),
        "packets": packets,
    }


def _service(one: ServiceOfPods) -> Json:
    return {
        "service": one.service,
        "addresses": _some(one.addresses),
        "ports": _some(one.ports),
        **_pods(one.pods),
    }


def _pods(pods: Iterable[PolicyPod]) -> Json:
    names = sorted(pod.key for pod in pods)
    return {"pods": names[:MAX_NAMED], "podCount": len(names)}


def _some(texts: Sequence[str]) -> list[str]:
    more = len(texts) - MAX_NAMED
    return [*texts[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])]
