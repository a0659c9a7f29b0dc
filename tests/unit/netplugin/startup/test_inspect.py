"""What `:9090` answers, in the original's shapes."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp import ClientSession, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from core import keys
from core.errors import HostError
from core.ids import EndpointKey
from core.log_lines.extra import extra_of
from core.metrics import Reading
from core.tasks import background
from daemons.health import Health
from daemons.listen_address import ListenAddress
from daemons.metrics_page import MetricsPage
from netplugin.diagnostics import large_json
from netplugin.dns.nameserver import NameServer
from netplugin.dns.rate_limit import RateLimit
from netplugin.startup import inspect
from netplugin.startup.inspect import Inspector
from netplugin.world.bridges.conversion import LocalPort
from ofnet.inspection import AgentIdentity
from ofnet.world import Bridge
from state.records import GlobalRecord
from tests.unit.netplugin.agent import Agent, Outside, request, running
from tests.unit.netplugin.records import PEER, endpoint, host, key


def identity(bridge: Bridge) -> AgentIdentity:
    return AgentIdentity(
        local_ip="192.0.2.1",
        port=9002 if bridge is Bridge.VXLAN else 9003,
        masters={"192.0.2.10": 9001, "localhost": 9001},
    )


def application(agent: Agent, metrics: MetricsPage | None = None) -> web.Application:
    inspector = Inspector(
        agents=agent.reconciler._agents,
        membership=Mock(identity=identity),
        names=NameServer(agent.world.names, RateLimit(0, lambda: 0.0)),
        pods=agent.pods,
        bgp=agent.bgp,
        collected={"pod gone": 2},
        kubernetes=Mock(report=lambda: {"complete": True}),
        metrics=metrics,
    )
    return inspect.application(Health({}), inspector)


ENDPOINTS = 2000
MASTER = "192.0.2.10"


class Writer(AbstractStreamWriter):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.sent += chunk

    async def drain(self) -> None:
        """Nothing waits."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        raise AssertionError(f"{encoding} was not asked for: {strategy}")

    def enable_chunking(self) -> None:
        raise AssertionError("the length is known")

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        assert status_line.endswith(" 200 OK")
        assert int(headers["Content-Length"]) > 2


async def answered(app: web.Application, request: web.Request, peer: str) -> web.StreamResponse:
    asked = request.clone(remote=peer)
    asked._match_info = await app.router.resolve(asked)
    return await app._handle(asked)


async def ask(app: web.Application, method: str, path: str, *, peer: str = MASTER) -> web.Response:
    answer = await answered(app, make_mocked_request(method, path, app=app), peer)
    assert isinstance(answer, web.Response)
    return answer


async def driver(app: web.Application, *, peer: str = MASTER) -> Any:
    writer = Writer()
    request = make_mocked_request("GET", "/inspect/driver", app=app, writer=writer)
    answer = await answered(app, request, peer)
    assert (answer.status, answer.content_length) == (200, len(writer.sent))
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    return json.loads(writer.sent)


async def test_bgp_is_shown(outside: Outside) -> None:
    async with running(outside) as agent:
        answer = await ask(application(agent), "GET", "/inspect/bgp")
        assert (answer.status, answer.text) == (200, "{}")
        bridged = GlobalRecord(infra_type="", fwd_mode="bridge", arp_mode="", pvt_subnet="")
        agent.learn(keys.GLOBAL_CONFIG, bridged)
        answer = await ask(application(agent), "GET", "/inspect/bgp")
        assert (answer.status, answer.text) == (500, "Ofnet not initialized in routing mode\n")


async def test_flows_of_an_endpoint_are_found_by_the_name_that_the_log_has(
    outside: Outside,
) -> None:
    async with running(outside) as agent:
        result = await agent.pods.add(request())
        app = application(agent)
        answer = await ask(app, "GET", f"/inspect/flows/{key('c1')}")
        assert answer.status == 200
        lines = (answer.text or "").splitlines()
        wanted = {
            f"{bridge}: cookie={flow.cookie:#x}, {flow}"
            for bridge, one in agent.dataplane.agents.items()
            for flow in one.desired.flows.values()
        }
        assert set(lines) <= wanted
        assert result.ipv4 is not None
        assert any(str(result.ipv4).partition("/")[0] in line for line in lines)
        assert (await ask(app, "GET", "/inspect/flows/nosuch")).status == 404


async def test_both_bridges_are_shown(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("k", endpoint(2, host=PEER))
        agent.learn("k", host())
        await agent.ports.converge()
        await agent.reconciler.put_port(key("c1"), LocalPort(record=endpoint(), ofport=1))
        app = application(agent)
        report = await driver(app)
        assert report.keys() == {"vlan", "vxlan"}
        vxlan, vlan = report["vxlan"], report["vlan"]
        assert (vxlan["MyPort"], vlan["MyPort"]) == (9002, 9003)
        assert (vxlan["IsConnected"], vxlan["LocalIp"]) == (True, "192.0.2.1")
        text = json.dumps(vxlan)
        assert all(address in text for address in ("10.1.0.1", "10.1.0.2", "192.0.2.2"))
        assert "10.1.0.1" not in json.dumps(vlan)


async def test_many_endpoints_leave_time_for_others(outside: Outside) -> None:
    """The finding of docs/notes/trust.md §16."""
    async with running(outside) as agent:
        for number in range(2, 2 + ENDPOINTS):
            agent.learn("k", endpoint(number, host=PEER))
        await agent.reconciler.flush()
        app, turns = application(agent), 0
        bridge = agent.reconciler._agents[Bridge.VXLAN]

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with background("other work", count()):
            report = await driver(app)
        assert report["vxlan"] == bridge.inspect(identity(Bridge.VXLAN))
        assert len(report["vxlan"]["EndpointDb"]) >= ENDPOINTS
        assert turns >= ENDPOINTS // large_json.PORTION


async def test_names_are_shown(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.learn("k", endpoint(2, host=PEER, group="web"))
        answer = await ask(application(agent), "GET", "/inspect/nameserver")
        assert answer.text is not None
        web = json.loads(answer.text)["dnsRecords"]["default"]["endpointGroups"]["web"]
        assert web == ["ipv4:10.1.0.2 ipv6:<nil>"]


async def test_without_clients_services_have_no_counters(outside: Outside) -> None:
    async with running(outside) as agent:
        answer = await ask(application(agent), "GET", "/svcstats")
        assert (answer.status, answer.text, answer.content_type) == (200, "{}", "application/json")


async def test_what_was_mended_is_counted(outside: Outside) -> None:
    async with running(outside) as agent:
        answer = await ask(application(agent), "GET", "/debug/leaks")
        assert (answer.status, answer.text) == (200, '{"pod gone":2}')


async def test_an_endpoint_is_reclaimed_by_its_key(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request("a.b-c"))
        path = "/debug/reclaimEndpoint/n1.default-a.b-c"
        for _ in range(2):
            answer = await ask(application(agent), "DELETE", path)
            assert (answer.status, answer.text) == (200, "null\n")
            assert answer.content_type == "application/json"
        assert agent.registry.keys() == frozenset()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/inspect/driver", 405),
        ("GET", "/debug/reclaimEndpoint/x", 405),
        ("DELETE", "/debug/reclaimEndpoint/", 404),
    ],
)
async def test_other_requests_are_refused(
    outside: Outside, method: str, path: str, status: int
) -> None:
    async with running(outside) as agent:
        with pytest.raises(web.HTTPException) as refusal:
            await ask(application(agent), method, path)
        assert refusal.value.status == status


async def test_a_failed_reclaim_is_told(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_key: EndpointKey) -> None:
        raise HostError("disk full")

    async with running(outside) as agent:
        monkeypatch.setattr(agent.pods, "reclaim", fail)
        answer = await ask(application(agent), "DELETE", "/debug/reclaimEndpoint/n1.default-c1")
        assert (answer.status, answer.text) == (500, "disk full\n")


async def test_only_a_registered_master_changes_anything(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request("c1"))
        app, path = application(agent), "/debug/reclaimEndpoint/n1.default-c1"
        for peer in ("192.0.2.11", "10.1.0.2", ""):
            answer = await ask(app, "DELETE", path, peer=peer)
            assert answer.status == 403
            assert "is not the address of a registered netmaster" in str(answer.text)
            assert await driver(app, peer=peer)
        assert len(agent.registry.keys()) == 1
        assert (await ask(app, "DELETE", path, peer="127.0.0.1")).status == 200, "known by name"
        assert agent.registry.keys() == frozenset()


async def test_kubernetes_is_shown(outside: Outside) -> None:
    async with running(outside) as agent:
        answer = await ask(application(agent), "GET", "/inspect/kubernetes")
        assert answer.text == '{"complete":true}'


class Broken:
    """A source of metrics that cannot be read."""

    async def read(self) -> Iterable[Reading]:
        raise KeyError("no such bridge")


async def test_a_route_that_fails_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    outside = Outside.new()
    async with running(outside) as agent:
        app = application(agent, MetricsPage(Broken()))
        async with (
            inspect.serve(ListenAddress("127.0.0.1", 0), app) as port,
            ClientSession(f"http://127.0.0.1:{port}") as client,
        ):
            async with client.get("/metrics") as answer:
                assert answer.status == 500
            async with client.get("/no/such/route") as answer:
                assert answer.status == 404
    (told,) = [one for one in caplog.records if one.name == inspect.__name__]
    assert told.getMessage() == "request failed"
    assert extra_of(told) == {"method": "GET", "path": "/metrics"}
    assert told.exc_info is not None
    assert repr(told.exc_info[1]) == "KeyError('no such bridge')"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"enter": {"endpoint": "a"}, "to": "10.1.0.1"}', 200),
        (b'{"enter": {"endpoint": "a"}}', 400),
        (b"{", 400),
        (b"[" * 60_000, 400),
    ],
)
async def test_a_trace_answers_a_question_alone(body: bytes, status: int) -> None:
    tracer = AsyncMock()
    tracer.trace.return_value = {"host": "h1"}
    parts = dict.fromkeys(("agents", "membership", "names", "pods", "bgp", "collected"), Mock())
    inspector = Inspector(**parts, tracer=tracer)
    question = make_mocked_request("POST", "/trace")
    question._read_bytes = body
    answer = await inspector._trace(question)
    assert answer.status == status
    assert tracer.trace.await_count == (1 if status == 200 else 0)
