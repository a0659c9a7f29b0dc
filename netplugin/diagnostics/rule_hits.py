"""GET /inspect/rules: how many packets the policies' rules have decided about on this host.

In come the counters of flows (`ofnet.hits`) of both bridges, read for each request. netmaster sums
up those of all hosts, by the rules of the users (`netmaster.plan.show.rule_hits`).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import SwitchRefused, SwitchUnavailable
from netplugin.world.kubernetes.kube_policies import KubePolicies
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.world import Bridge

PATH: Final = "/inspect/rules"


def routes(agents: Mapping[Bridge, BridgeAgent], kubernetes: KubePolicies) -> list[web.RouteDef]:
    """Return the route; `kubernetes` has the names of the rules that entries are made of."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(
            body=dumps(await report(agents, kubernetes)), content_type="application/json"
        )

    return [web.get(PATH, answer)]


async def report(agents: Mapping[Bridge, BridgeAgent], kubernetes: KubePolicies) -> dict[str, Any]:
    """Return the hits of all rules that have any.

    `rules` has packets and bytes by ofnet rule id (`state.policy_rules`). `kubernetes` has them by
    verdict: those of a conjunction name their rule, others the policies that share the match.
    `missing` names the bridges that did not answer, with the reason.
    """
    # Open vSwitch counts a conjunction's packets at the flow of its verdict, not at its clauses: so
    # there is a number for each rule, and none for its peers or ports. Only the first packet of a
    # connection gets there; the others pass by the connection's state.
    packets, sizes = Counter[str](), Counter[str]()
    judged: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    judged_sizes: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    missing = {}
    for bridge, agent in agents.items():
        try:
            rules = await agent.hits(ObjectKind.RULE)
            entries = await agent.hits(ObjectKind.POLICY_ENTRY)
        except (SwitchUnavailable, SwitchRefused) as exc:
            missing[str(bridge)] = str(exc)
            continue
        for name, hits in rules.items():
            packets[name] += hits.packets
            sizes[name] += hits.bytes
        for name, hits in entries.items():
            entry = agent.world.policy_entries.get(name)
            if entry is not None and entry.verdict is not None:
                key = *kubernetes.origin(entry.match), entry.verdict.value
                judged[key] += hits.packets
                judged_sizes[key] += hits.bytes
    return {
        "rules": {name: [packets[name], sizes[name]] for name in sorted(packets)},
        "kubernetes": [
            {
                "rule": rule,
                "policies": list(policies),
                "verdict": verdict,
                "packets": judged[rule, policies, verdict],
                "bytes": judged_sizes[rule, policies, verdict],
            }
            for rule, policies, verdict in sorted(judged)
        ],
        "missing": missing,
    }
