"""One agent is compromised: it has its certificate, and its rights in the store.

Two agents answer with TLS, h1 at 127.0.0.1 and h2 at 127.0.0.2; h1 does as a test says. A leader
asks both, for an administrator.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from core import keys
from core.errors import AgentUnavailable, Invalid, NotFound
from core.ids import HostLabel
from daemons.certificates.peers import Role
from daemons.certificates.tls import TlsContexts
from netmaster.api.leader.agents import RegisteredAgents
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.route_table import ROUTE_FINDER
from netmaster.migration import readers
from objdb.api import Backend, Change, Put
from state import codec
from state.records import HostRecord, ServiceInstance
from tests.unit.certificates import Issuer, request
from tests.unit.netmaster.term import context_of, term

ADDRESSES: Final = {"h1": "127.0.0.1", "h2": "127.0.0.2"}
MASTER: Final = "127.0.0.9"
ANSWER: Final = {
    "rules": {"r": [1, 2]},
    "kubernetes": [],
    "missing": {},
    "records": [],
    "unrecorded": [],
    "on": True,
    "position": 1,
    "lost": {},
}
CONVERSATIONS: Final = {
    "on": True,
    "complete": True,
    "from": 0,
    "lost": {},
    "conversations": [
        {
            "source": {"network": "", "group": "", "namespace": "", "address": "9.9.9.9"},
            "destination": {"network": "n1", "group": "", "namespace": "shop", "address": ""},
            "protocol": "tcp",
            "port": 80,
            "dropped": False,
            "connections": 2,
        }
    ],
}
KUBERNETES: Final = {"rules": [], "complete": True, "missing": {}}
WEB: Final = {"service": "shop/web", "addresses": [], "ports": [], "pods": [], "podCount": 0}
ROUTES: Final = (
    "/hosts",
    "/info",
    "/api/v2/hosts",
    "/api/v2/rule-hits",
    "/api/v2/kubernetes-rules",
    "/api/v2/policy-log",
    "/api/v2/flows",
    "/api/v2/policy-suggestion?tenant=default",
    "/api/v2/selftest",
    "/api/v2/diagnosis",
    "/api/v2/trace?src=n1.default-c2&dst=8.8.8.8",
    "/ipam/check",
)

OF_LOOPBACK = "is no address at which other hosts could reach it"
"""What is rightly said of hosts that are at addresses of loopback, as these are."""


@dataclass
class AgentsAndLeader:
    """A leader, and what agents write to the store."""

    leader: LeaderContext
    backend: Backend
    ports: dict[str, int]
    asked: list[str]
    """Who was asked what, as "h1 GET /inspect/rules"."""
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | None = None
    """What h1 answers."""

    async def put(self, key: str, value: bytes) -> None:
        await self.backend.commit([Change((), (Put(key, value),))])

    async def get(self, path: str) -> Any:
        """Return the answer of a route: JSON, or bytes. Raises ContivError."""

        async def body() -> bytes:
            return b""

        path, _, query = path.partition("?")
        found = ROUTE_FINDER.find("GET", path)
        assert found is not None
        asked = ApiRequest(body=body, parameters=found.parameters, query=query, method="GET")
        answer = await found.route.handler(self.leader, asked)
        assert isinstance(answer, web.Response)
        assert isinstance(answer.body, bytes)
        assert answer.status == 200
        return answer.body if path.endswith("diagnosis") else json.loads(answer.body)

    async def register(self, key_of: str, label: str, port: int, value: bytes = b"") -> None:
        """Write a registration at the address of one host in the name of another."""
        instance = ServiceInstance(
            service=keys.SERVICE_AGENT_REST, address=ADDRESSES[key_of], port=port, hostname=label
        )
        key = keys.service(instance.service, instance.address, port)
        await self.put(key, value or codec.encode(instance))

    async def all_is_shown(self) -> dict[str, list[str]]:
        """Ask everything; return the errors of the hosts, by label."""
        for path in ROUTES:
            await self.get(path)
        hits = await self.get("/api/v2/rule-hits")
        assert "h2" not in hits["unreachable"]
        (rule,) = hits["kubernetes"]
        judging = await self.get("/api/v2/kubernetes-rules")
        assert "h2" not in judging["unreachable"]
        assert [one["service"] for one in judging["services"]] == ["shop/web"]
        assert rule["hosts"] == {"h2": {"packets": 1, "bytes": 2}}
        return {
            host["label"]: [error for error in host["errors"] if OF_LOOPBACK not in error]
            for host in await self.get("/hosts")
        }


def record(label: str) -> HostRecord:
    own = ADDRESSES[label]
    return HostRecord(label=HostLabel(label), control_ip=own, vtep_ip=own, vxlan_port=4789)


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[AgentsAndLeader]:
    issuer = Issuer.new(directory)
    async with AsyncExitStack() as stack:
        lead = await stack.enter_async_context(term())
        await lead.network("n1")
        await lead.endpoint("c2", host="h2")
        tls = TlsContexts(issuer.files(request(Role.MASTER, "m1", (MASTER,))))
        agents = RegisteredAgents(lead.backend, tls=tls, answer_timeout=5.0)
        stack.push_async_callback(agents.close)
        found = AgentsAndLeader(replace(context_of(lead), agents=agents), lead.backend, {}, [])
        for label, address in ADDRESSES.items():
            files = issuer.files(request(Role.AGENT, label, (address,)))
            runner = web.ServerRunner(web.Server(_answering(found, label)), shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, address, 0, ssl_context=TlsContexts(files).server()).start()
            found.ports[label] = runner.addresses[0][1]
            await found.put(keys.host(HostLabel(label)), codec.encode(record(label)))
            await found.register(label, label, found.ports[label])
        yield found


def _answering(
    there: AgentsAndLeader, label: str
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    answers: dict[str, Any] = {
        "/trace": {"host": label, "faults": []},
        "/inspect/selftest": {"flows": {"passed": 1, "failed": {}}},
        "/inspect/diagnosis": {"log.txt": f"of {label}"},
        "/inspect/conversations": CONVERSATIONS,
        "/inspect/kubernetes-rules": {**KUBERNETES, "services": [WEB] if label == "h2" else []},
    }

    async def answer(asked: web.BaseRequest) -> web.StreamResponse:
        there.asked.append(f"{label} {asked.method} {asked.path}")
        if label == "h1" and there.answer is not None:
            return await there.answer(asked)
        if asked.path in answers:
            return web.json_response(answers[asked.path])
        judged = {"rule": "k", "policies": [], "verdict": "deny", "packets": 1, "bytes": 2}
        return web.json_response({**ANSWER, "kubernetes": [judged] if label == "h2" else []})

    return answer


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[AgentsAndLeader]:
    async with cluster(tmp_path) as made:
        yield made


async def test_all_is_well_before(there: AgentsAndLeader) -> None:
    assert await there.all_is_shown() == {"h1": [], "h2": []}


@pytest.mark.parametrize("value", [b"garbage", b"[" * 100_000, b'{"Port":1e999}'])
async def test_garbage_in_its_registrations_is_its_own_error(
    there: AgentsAndLeader, value: bytes
) -> None:
    await there.register("h1", "h1", 1, value)
    errors = await there.all_is_shown()
    assert errors["h2"] == []
    assert "netplugin.rest/127.0.0.1:1" in errors["h1"][0]


@pytest.mark.parametrize("value", [b"garbage", b'{"label":"h2"}', b'{"schema":-7}'])
async def test_garbage_in_its_record_is_its_own_error(there: AgentsAndLeader, value: bytes) -> None:
    await there.put(keys.host(HostLabel("h1")), value)
    errors = await there.all_is_shown()
    assert errors["h2"] == []
    assert "host/h1" in errors["h1"][0]
    # A new leader begins its term all the same.
    assert (await readers(there.backend)).versions == {"host h1": 1, "host h2": 1}


async def test_it_cannot_register_in_another_hosts_name(there: AgentsAndLeader) -> None:
    await there.register("h1", "h2", there.ports["h1"])
    there.asked.clear()
    errors = await there.all_is_shown()
    assert errors["h2"] == []
    assert "in the name of host h2" in errors["h1"][0]
    await there.leader.agents.reclaim(await _endpoint(there))
    assert {one for one in there.asked if "reclaim" in one} == {
        "h2 DELETE /debug/reclaimEndpoint/n1.default-c2"
    }


async def test_another_hosts_label_is_in_that_hosts_certificate_alone(
    there: AgentsAndLeader,
) -> None:
    """Also where h2's record is gone, or of a release that does not tell its addresses."""
    older = codec.encode(replace(record("h2"), control_ip="127.0.0.2", vtep_ip="127.0.0.2"))
    await there.put(keys.host(HostLabel("h2")), older)
    await there.put(keys.host(HostLabel("h1")), codec.encode(replace(record("h1"), control_ip="")))
    await there.put(keys.host(HostLabel("h1")), b"{}")
    await there.register("h1", "h2", there.ports["h1"])
    await there.register("h2", "h2", there.ports["h2"], b"{}")
    there.asked.clear()
    with pytest.raises(AgentUnavailable, match="certificate of agent/h1, not of host h2"):
        await there.leader.agents.trace("h2", {})
    assert there.asked == []


async def _endpoint(there: AgentsAndLeader) -> Any:
    return await there.leader.committer.read(lambda view: view.endpoints[min(view.endpoints)])


def _says(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        _says(b"[" * 200_000),
        _says(b'{"rules":{"a":[1e999,2]},"kubernetes":[],"missing":{}}'),
        _says(b'{"x":{"passed":1e999,"failed":{}}}'),
        _says(b'{"\\ud800":"\\ud800"}'),
        _says(b"x" * 100_000, 400),
        _says(b"x" * 100_000, 500),
        _says(b"", 799),
        _says(b"\x1f\x8bgarbage", headers={"Content-Encoding": "gzip"}),
        _says(b"", 302, {"Location": "https://127.0.0.2:1/"}),
    ],
)
async def test_what_it_answers_is_blamed_on_it_alone(
    there: AgentsAndLeader, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
) -> None:
    there.answer = answer
    assert await there.all_is_shown() == {"h1": [], "h2": []}
    for path in ("/api/v2/rule-hits", "/api/v2/kubernetes-rules"):
        assert (await there.get(path))["unreachable"]["h1"]
    suggested = await there.get("/api/v2/policy-suggestion?tenant=default&since=2026-01-01")
    assert (list(suggested["unreachable"]), suggested["connections"]) == (["h1"], 2)
    assert suggested["networkPolicies"][0]["metadata"]["namespace"] == "shop"
    test = await there.get("/api/v2/selftest")
    failed = {one["host"]: one["checks"]["agent"]["failed"] for one in test["hosts"]}
    assert failed["h2"] == {}
    with pytest.raises((AgentUnavailable, Invalid)) as raised:
        await there.leader.agents.trace("h1", {})
    assert len(str(raised.value)) < 5000


async def test_it_cannot_send_the_master_elsewhere(there: AgentsAndLeader) -> None:
    other = f"https://127.0.0.2:{there.ports['h2']}/inspect/rules"
    there.answer = _says(b"", 307, {"Location": other})
    there.asked.clear()
    with pytest.raises(AgentUnavailable, match="Temporary Redirect"):
        await there.leader.agents.bgp("h1")
    assert there.asked == ["h1 GET /inspect/bgp"]


async def test_a_host_that_nobody_knows_is_not_found(there: AgentsAndLeader) -> None:
    with pytest.raises(NotFound):
        await there.get("/hosts/h3")
