"""GET /inspect/adds: the last ADDs of this host, each with its stages, the newest first.

`?container=ID` chooses those of a container, by its id or the beginning of one. What an ADD is told
by, here and in logs of runtime, plugin and agent, is that id; the lines of agent and masters about
it have its `trace` as `trace_id`.
"""

from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from contivmodel.wire import dumps
from netplugin.pods.registry.recent_adds import RecentAdd, RecentAdds

PATH: Final = "/inspect/adds"


def routes(adds: RecentAdds) -> list[web.RouteDef]:
    """Return the route."""

    async def answer(request: web.Request) -> web.Response:
        found = adds.newest(request.query.get("container", ""))
        return web.Response(body=dumps(shown(found)), content_type="application/json")

    return [web.get(PATH, answer)]


def shown(adds: Iterable[RecentAdd]) -> dict[str, Any]:
    """Return ADDs as REST has them; all times are milliseconds, `from` since the ADD began."""
    return {"adds": [_add(one) for one in adds]}


def _add(one: RecentAdd) -> dict[str, Any]:
    spec = one.request.spec
    return {
        "container": spec.container_id,
        "interface": spec.ifname,
        "namespace": one.request.namespace,
        "pod": one.request.pod_name,
        "endpoint": spec.key,
        "at": one.at.isoformat(timespec="milliseconds"),
        "trace": one.trace,
        "outcome": one.outcome,
        "error": one.error,
        "milliseconds": _milliseconds(one.seconds),
        "stages": [
            {"stage": stage, "from": _milliseconds(began), "milliseconds": _milliseconds(seconds)}
            for stage, began, seconds in one.times.timeline()
        ],
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
