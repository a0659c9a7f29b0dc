"""What `:9090` answers, in the original's shapes."""

import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from core import keys
from core.errors import HostError
from core.ids import EndpointKey
from netplugin.dns.nameserver import NameServer
from netplugin.startup.inspect import Inspector
from netplugin.world.conversion import LocalPort
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


def application(agent: Agent) -> web.Application:
    app = Inspector(
        agents=agent.reconciler._agents,
        identity=identity,
        names=NameServer(agent.world.names),
        pods=agent.pods,
        bgp=agent.bgp,
        collected={"pod gone": 2},
    ).application()
    app.freeze()
    return app


MASTER = "192.0.2.10"


async def ask(app: web.Application, method: str, path: str, *, peer: str = MASTER) -> web.Response:
    request = make_mocked_request(method, path, app=app).clone(remote=peer)
    request._match_info = await app.router.resolve(request)
    answer = await app._handle(request)
    assert isinstance(answer, web.Response)
    return answer


async def driver(app: web.Application) -> Any:
    answer = await ask(app, "GET", "/inspect/driver")
    assert answer.status == 200
    assert answer.text is not None
    return json.loads(answer.text)


async def test_bgp_is_shown(outside: Outside) -> None:
    async with running(outside) as agent:
        answer = await ask(application(agent), "GET", "/inspect/bgp")
        assert (answer.status, answer.text) == (200, "{}")
        bridged = GlobalRecord(infra_type="", fwd_mode="bridge", arp_mode="", pvt_subnet="")
        agent.learn(keys.GLOBAL_CONFIG, bridged)
        answer = await ask(application(agent), "GET", "/inspect/bgp")
        assert (answer.status, answer.text) == (500, "Ofnet not initialized in routing mode\n")


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
        assert agent.pods.keys() == frozenset()


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
            assert (await ask(app, "GET", "/inspect/driver", peer=peer)).status == 200
        assert len(agent.pods.keys()) == 1
        assert (await ask(app, "DELETE", path, peer="127.0.0.1")).status == 200, "known by name"
        assert agent.pods.keys() == frozenset()
