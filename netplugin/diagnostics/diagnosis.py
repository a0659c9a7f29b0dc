"""GET /inspect/diagnosis: all that an agent knows of itself and its host, as texts by name.

netmaster puts those of all hosts into one bundle (`netmaster.api.v2.diagnostics.diagnosis`).
`?bytes=` is the share of this host. What may be in them and how they are bounded:
`daemons.diagnosis_parts`.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from aiohttp import web

from contivmodel.wire import dumps
from core.errors import SwitchRefused, SwitchUnavailable
from core.numbers import bounded
from daemons.diagnosis_parts import MOST, Part, as_json, collect
from netplugin.ovsdb import Ovsdb
from ofnet.agent import BridgeAgent
from ofnet.desired import Desired
from ofnet.diff import Difference
from ofnet.flows import table_of
from ofnet.world import Bridge

PATH: Final = "/inspect/diagnosis"
SHOWN: Final = 500
"""Flows of each kind of difference that are listed."""


def routes(parts: Mapping[str, Part]) -> list[web.RouteDef]:
    """Return the route; `parts` are the files of the bundle."""
    one_at_a_time = asyncio.Lock()

    async def answer(request: web.Request) -> web.Response:
        asked = bounded(request.query.get("bytes", ""), 0, 10**18)
        share = MOST if asked is None else min(asked, MOST)
        async with one_at_a_time:
            texts = await collect(parts, most=share)
        return web.Response(body=dumps(texts), content_type="application/json")

    return [web.get(PATH, answer)]


def flow_parts(agents: Mapping[Bridge, BridgeAgent]) -> dict[str, Part]:
    """Return a part for each bridge: its flows as wanted and in the switch."""
    return {f"flows-{bridge}.txt": partial(_flows, agent) for bridge, agent in agents.items()}


async def _flows(agent: BridgeAgent) -> str:
    try:
        counted, found = await agent.compared()
    except (SwitchUnavailable, SwitchRefused) as exc:
        return f"wanted: {len(agent.desired.held)}\nin the switch: not available: {exc}\n"
    return flow_report(agent.desired, counted, found)


def flow_report(desired: Desired, counted: int, found: Difference) -> str:
    """Return how many flows are wanted in each table, and how the switch differs.

    `counted` is how many flows the switch has.
    """
    by_table = Counter(map(table_of, desired.held))
    missing = desired.made([flow.key for flow in found.add[:SHOWN]])
    lines = [
        f"wanted: {len(desired.held)}",
        f"in the switch: {counted}",
        f"missing in the switch: {len(found.add)}",
        f"not wanted in the switch: {len(found.delete)}",
        *(f"wanted in table {table}: {count}" for table, count in sorted(by_table.items())),
        *(f"missing: {flow}" for flow in missing),
        *(f"not wanted: table={one.table} cookie={one.cookie:#x}" for one in found.delete[:SHOWN]),
    ]
    return "\n".join(lines) + "\n"


async def ovsdb_rows(ovsdb: Ovsdb) -> str:
    """Return the rows of this agent's bridges and of their ports."""
    return as_json({
        bridge: {"bridge": ovsdb.bridge(bridge), "ports": ovsdb.ports(bridge)} for bridge in Bridge
    })  # fmt: skip
