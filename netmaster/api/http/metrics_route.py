"""`GET /metrics` of a master: each answers it for itself, whatever its role.

With TLS the client must have a role that may read it (`netmaster.auth.roles`), as for any route.
"""

from aiohttp import web

from daemons.metrics_page import CONTENT_TYPE, PATH, MetricsPage
from netmaster.api.http.access import AccessControl
from netmaster.api.http.server import Role


def metrics_route(page: MetricsPage, access: AccessControl | None) -> Role:
    """Return what answers the route from a page; `access` is None without TLS."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if access is not None:
            await access.admit(request, PATH, {})
        return web.Response(body=await page.text(), headers={"Content-Type": CONTENT_TYPE})

    return answer
