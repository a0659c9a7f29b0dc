"""GET /inspect/policy-log: what rules with `log` have denied and allowed on this host.

What rules with `audit` would have denied is there too, with the action `audit`.

In come packets that the switches report (`ofnet.logged_rules`); out go one log event and one record
for each, with names. The last `MOST` records are kept. netmaster collects those of all hosts
(`netmaster.api.v2.diagnostics.policy_log`).
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count, islice
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from core.addresses import authority
from core.errors import SwitchRefused, SwitchUnavailable
from core.ids import network_name
from core.logs import fields
from core.numbers import bounded
from netplugin.world.cluster_endpoints.endpoints import Endpoints
from ofnet.agent import BridgeAgent
from ofnet.logged_rules import LoggedEnd, LoggedPacket
from ofnet.world import Bridge, Rule
from state.policy_rules import PROTOCOLS

PATH: Final = "/inspect/policy-log"
MOST: Final = 1000
"""Records that are kept."""

FILTERS: Final = ("tenant", "policy", "rule", "action")
"""What may be asked for by value; also `limit`, how many records at most."""

MOST_A_SECOND: Final = 100
"""Records made in a second, of all rules: more would cost the agent too much."""

_PROTOCOL_NAMES: Final = {
    **{number: name for name, number in PROTOCOLS.items() if name},
    58: "icmpv6",
    132: "sctp",
}
_NAMES: Final = ("tenant", "network", "group", "endpoint", "container")

log = logging.getLogger(__name__)
Json = dict[str, Any]


class PolicyLog:
    """The last records, and how many packets have none; `now` returns the time, in UTC."""

    def __init__(self, endpoints: Endpoints, now: Callable[[], datetime]) -> None:
        self._endpoints = endpoints
        self._now = now
        self._records: deque[Json] = deque(maxlen=MOST)
        self._numbers = count(1)
        self._recorded: Counter[str] = Counter()
        self._second = (datetime.min.replace(tzinfo=UTC), 0)

    def note(self, packet: LoggedPacket) -> None:
        """Record a packet, unless this second has too many."""
        at = self._now()
        second, taken = self._second
        begun = at.replace(microsecond=0)
        taken = taken + 1 if second == begun else 1
        self._second = begun, taken
        if taken > MOST_A_SECOND:
            return
        rule = packet.rule
        self._recorded[rule.id] += 1
        record: Json = {
            "number": next(self._numbers),
            "at": at.isoformat(timespec="milliseconds"),
            **rule_names(rule.id),
            "action": _action(rule),
            "protocol": protocol_name(packet.protocol),
            "source": self._end(packet.source),
            "destination": self._end(packet.destination),
        }
        self._records.append(record)
        log.info(
            "packet of a rule with log",
            extra=fields(
                tenant=record["tenant"],
                policy=record["policy"],
                rule=record["rule"],
                action=record["action"],
                protocol=record["protocol"],
                source=_text(record["source"]),
                destination=_text(record["destination"]),
            ),
        )

    async def report(
        self,
        agents: Mapping[Bridge, BridgeAgent],
        having: Mapping[str, str] = MappingProxyType({}),
        limit: int = MOST,
    ) -> Json:
        """Return the newest records with some values, and the packets without one by rule.

        `missing` names the bridges that did not tell their counters, with the reason. Counters
        begin when a rule's flows are made, records with the agent: after its restart what the
        agent before recorded counts as unrecorded.
        """
        met, missing = Counter[str](), {}
        for bridge, agent in agents.items():
            try:
                met.update(await agent.logged_packets())
            except (SwitchUnavailable, SwitchRefused) as exc:
                missing[str(bridge)] = str(exc)
        without = {rule: met[rule] - self._recorded[rule] for rule in sorted(met)}
        return {
            "records": list(islice(self._having(having), limit)),
            "unrecorded": [
                {**rule_names(rule), "packets": number}
                for rule, number in without.items()
                if number > 0
            ],
            "missing": missing,
        }

    def routes(self, agents: Mapping[Bridge, BridgeAgent]) -> list[web.RouteDef]:
        """Return the route."""

        async def answer(request: web.Request) -> web.Response:
            limit = bounded(request.query.get("limit", str(MOST)), 0, 10**9)
            if limit is None:
                return web.Response(status=400, text=f"limit is no number up to {10**9}\n")
            having = {name: request.query[name] for name in FILTERS if name in request.query}
            report = await self.report(agents, having, limit)
            body = await asyncio.to_thread(dumps, report)
            return web.Response(body=body, content_type="application/json")

        return [web.get(PATH, answer)]

    def _having(self, having: Mapping[str, str]) -> Iterator[Json]:
        """Yield the records with these values, the newest first."""
        for one in reversed(self._records):
            if all(one[name] == value for name, value in having.items()):
                yield one

    def _end(self, end: LoggedEnd) -> Json:
        """Return an end with its names; "" for those that are not known."""
        found: Json = {"address": str(end.address), "port": end.port, **dict.fromkeys(_NAMES, "")}
        if end.endpoint is None or end.network is None:
            return found
        record = self._endpoints.record(end.endpoint)
        tenant = self._endpoints.tenant_of(end.network)
        network = network_name(end.network, tenant)
        found |= {"tenant": tenant, "network": network, "endpoint": end.endpoint}
        if record is not None:
            group = record.group_key.partition(":")[0]
            container = record.common_name or record.container_id or record.endpoint_id
            found |= {"group": group, "container": container}
        return found


def protocol_name(number: int) -> str:
    """Return the name of a protocol, or its number as text."""
    return _PROTOCOL_NAMES.get(number, str(number))


def rule_names(rule_id: str) -> dict[str, str]:
    """Return tenant, policy and rule of a rule of a switch (`state.policy_rules.expand`)."""
    parts = rule_id.split(":")
    tenant, policy, rule = parts[4:7] if len(parts) > _RULE else ("", "", rule_id)
    return {"tenant": tenant, "policy": policy, "rule": rule}


def _action(rule: Rule) -> str:
    if rule.audit:
        return "audit"
    return "allow" if rule.allow else "deny"


_RULE: Final = 6
"""The part of a rule's id that is the rule's own."""


def _text(end: Json) -> str:
    place = authority(end["address"], end["port"]) if end["port"] else end["address"]
    names = "/".join(end[name] for name in ("tenant", "network", "group", "container") if end[name])
    return f"{place} {names}".rstrip()
