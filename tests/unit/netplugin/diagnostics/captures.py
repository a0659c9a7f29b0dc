"""A host of one endpoint that serves captures."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from netplugin.diagnostics.capture import Captures
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Outside
from tests.unit.netplugin.port_rows import port_row
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.worlds import local, world

LINK = "vvport7"
POD = local(7)
KEY = POD.key


class Masters:
    """Masters who ask, or somebody else does."""

    def __init__(self, *, asking: bool) -> None:
        self._asking = asking

    async def asked_by_master(self, _request: web.Request) -> bool:
        return self._asking


@asynccontextmanager
async def serving(*, master: bool = True) -> AsyncIterator[str]:
    """Serve the captures of the host; yield the URL of its endpoint's."""
    agents = {Bridge.VXLAN: BridgeAgent(FakeSwitch(), Bridge.VXLAN, world(here=(POD,)))}
    ovsdb = Outside.new().ovsdb
    ovsdb.show(ports={LINK: port_row(LINK, ofport=POD.ofport)})
    app = web.Application()
    app.router.add_routes(Captures(agents, ovsdb, Masters(asking=master)).routes())
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/inspect/capture/{KEY}"
