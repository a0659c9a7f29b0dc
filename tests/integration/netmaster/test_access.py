"""Who may do what with TLS: every route and RPC method, asked by every kind of client."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
import uvloop

from contivmodel.objects import Tenant
from core import keys
from daemons.certificates.peers import Role
from daemons.certificates.tls import TlsContexts, TlsFiles, call_refused
from daemons.diagnosis_parts import constant_text
from daemons.health import PATHS, Health
from daemons.http_client import Connector
from daemons.listen_address import ListenAddress
from daemons.metrics_page import MetricsPage
from netmaster.api.costly import LIMITS
from netmaster.api.dispatch import Leader
from netmaster.api.http.access import AccessControl
from netmaster.api.http.metrics_route import metrics_route
from netmaster.api.http.proxy import Proxy
from netmaster.api.http.routes import Route
from netmaster.api.http.server import RestServer
from netmaster.api.leader.agents import Answers
from netmaster.api.route_table import ROUTES
from netmaster.api.v2.diagnostics import flow_list
from netmaster.api.v2.diagnostics.diagnosis import OWN, own_route
from netmaster.api.v2.events import stream
from netmaster.api.v2.events.log import EventLog
from netmaster.api.v2.events.stream import EventStreams, StreamLimits
from netmaster.auth.accounts import StoredAccounts
from netmaster.auth.lockout import Lockout
from netmaster.auth.login import Logins
from netmaster.auth.passwords import HashCost, Passwords
from netmaster.auth.users import User
from netmaster.indexes.endpoint_index import with_id
from netmaster.plan.objects import tenant as tenant_plans
from netplugin.diagnostics import diagnosis, kubernetes_rules, rule_hits
from netplugin.diagnostics.capture import Captures
from netplugin.diagnostics.policy_log import PolicyLog
from netplugin.diagnostics.selftest import HostSelfTest
from netplugin.startup import inspect
from netplugin.startup.inspect import Inspector
from netplugin.world.kubernetes.kube_policies import KubePolicies
from objdb.api import Delta, Snapshot
from ofnet.rpc import control
from ofnet.rpc.control import Node, OfnetAgent, OfnetMaster
from ofnet.rpc.jsonrpc import RpcClient, RpcFailed, RpcServer
from tests.bed.waiting import WITHIN, eventually_async
from tests.unit.certificates import Issuer, anonymous_client, raw_client, request
from tests.unit.netmaster.scene import NOW
from tests.unit.netmaster.term import Term, context_of, term

LOOPBACK: Final = "127.0.0.1"
CHEAP: Final = HashCost(time=1, memory=8, parallelism=1)
PASSWORD: Final = "correct horse"
CLIENTS: Final = (
    *("master", "agent", "agent of another host", "admin", "operator", "reader"),
    *("no certificate", "another authority", "expired"),
)
REFUSED: Final = {"another authority", "expired"}
"""Clients that no handshake accepts."""
OWN_TENANT: Final = frozenset({
    *("appProfiles", "endpointGroups", "extContractsGroups", "netprofiles", "networks"),
    *("kept-addresses", "policys", "rules", "serviceLBs"),
})  # fmt: skip


OF_OWN_TENANTS: Final = frozenset({
    *("/api/v2/endpoints", "/api/v2/ipam", "/api/v2/events", "/api/v2/changes"),
    *("/api/v2/rule-hits", "/api/v2/trace", "/api/v2/globals/{key}/state", "/api/v2/reach"),
    "/api/v2/overview",
    *("/api/v2/policy-log", "/api/v2/flows", "/api/v2/flows/watch"),
    *("/api/v2/policy-suggestion", "/api/v2/endpoints/{key}/conditions"),
})  # fmt: skip
"""What an operator may read; it is shown its own tenants."""


class Certificates:
    """The identities of all clients, and those of the servers."""

    def __init__(self, directory: Path) -> None:
        self.issuer = issuer = Issuer.new(directory)
        (directory / "stranger").mkdir()
        stranger = Issuer.new(directory / "stranger")
        self.master = issuer.files(request(Role.MASTER, "m1", (LOOPBACK,)))
        self.agent = issuer.files(request(Role.AGENT, "h1", (LOOPBACK,)))
        other = issuer.files(request(Role.AGENT, "h2", ("192.0.2.2",)))
        admin = request(Role.ADMIN, "joe")
        files = {
            "master": issuer.files(request(Role.MASTER, "m2", (LOOPBACK,))),
            "agent": self.agent,
            "agent of another host": other,
            "admin": issuer.files(admin),
            "operator": issuer.files(request(Role.OPERATOR, "olga")),
            "reader": issuer.files(request(Role.READER, "rita")),
            # It trusts this cluster's authority, so that the server is what refuses.
            "another authority": replace(stranger.files(admin), ca=self.master.ca),
            "expired": issuer.expired_files(admin),
        }
        self.contexts = {name: raw_client(of) for name, of in files.items()}
        self.contexts["no certificate"] = anonymous_client(self.master)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


BRIEF: Final = StreamLimits(idle=0.01, lifetime=0.05)
"""Ends streams that are read whole."""


def changed() -> EventLog:
    """Return a log in which tenants and networks were deleted."""
    log = EventLog()
    log.take(Snapshot(1, {}))
    deleted = (("tenant", "blue"), ("tenant", "red"), ("network", "red:n"), ("Bgp", "h1"))
    log.take(Delta(2, (), tuple(keys.obj(*each) for each in deleted)))
    return log


@asynccontextmanager
async def leading(
    files: TlsFiles, *, agents: Any = None, streams: StreamLimits = BRIEF
) -> AsyncIterator[tuple[str, Term]]:
    """Serve a leader's API with TLS; yield its address. `agents` answer if they are given."""
    async with AsyncExitStack() as stack:
        lead = await stack.enter_async_context(term())
        await lead.network("n1")
        passwords = Passwords(CHEAP)
        stack.callback(passwords.close)
        accounts = StoredAccounts(lead.backend)
        for name, role, tenants in (
            ("olga", Role.OPERATOR, frozenset({"blue"})),
            ("paul", Role.READER, frozenset()),
        ):
            user = User(
                name=name,
                role=role,
                tenants=tenants,
                password_hash=await passwords.hash(PASSWORD),
            )
            await accounts.change_user(name, partial(_replaced, user))
        logins = Logins(
            accounts=accounts, passwords=passwords, lockout=Lockout(lambda: NOW), now=lambda: NOW
        )
        server = RestServer()
        stack.push_async_callback(server.close)
        control = AccessControl(logins)
        context = replace(context_of(lead), access=control)
        if agents is not None:
            context = replace(context, agents=agents)
        server.role = Leader(context).answer
        server.own["/metrics"] = metrics_route(MetricsPage(), control)
        server.own[stream.PATH] = EventStreams(changed(), control, streams).answer
        server.own[OWN] = own_route({"version.txt": partial(constant_text, "python_info")}, control)
        address = await server.listen(
            ListenAddress(LOOPBACK, 0), TlsContexts(files).server(certificate_optional=True)
        )
        yield str(address), lead


@pytest.mark.parametrize("path", ["/metrics", OWN])
@pytest.mark.parametrize("client", CLIENTS)
async def test_what_a_master_says_of_itself_is_for_administrators_and_readers(
    certificates: Certificates, client: str, path: str
) -> None:
    async with leading(certificates.master) as (address, _):
        found, text = await status(certificates.contexts[client], "GET", f"https://{address}{path}")
    match client:
        case "admin" | "reader":
            assert (found, "python_info" in text) == (200, True)
        case "no certificate" | "master":  # a master asks for others, here for nobody
            assert found == 401
        case _:
            assert found == (0 if client in REFUSED else 403)


def _replaced(user: User, _: User | None) -> User:
    return user


async def status(
    context: ssl.SSLContext, method: str, url: str, body: Any = None, **headers: str
) -> tuple[int, str]:
    """Return the answer to one request on a connection of its own; 0 for a refused handshake."""
    connector = Connector(ssl=context, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        return await ask(session, method, url, body, headers)


async def ask(
    session: aiohttp.ClientSession, method: str, url: str, body: Any, headers: dict[str, str]
) -> tuple[int, str]:
    """Return the answer to one request; 0 for a refused handshake."""
    try:
        async with session.request(method, url, json=body, headers=headers) as answer:
            if answer.url.path == flow_list.WATCH_PATH and answer.status == 200:
                return answer.status, ""  # ten minutes long
            return answer.status, (await answer.read()).decode("utf-8", "replace")
    except aiohttp.ClientError:
        return 0, ""


def may(client: str, route: Route[Any], own: bool) -> bool:
    """Say whether a client may use a route; `own`: on a tenant or host of its own."""
    reads, path = route.method == "GET", route.pattern
    public = path in {"/version", "/openapi.json", "/api/v1/auth_proxy/login/"}
    if public or client == "no certificate" or path in {"/info", "/api/v2/whoami"}:
        return public or client != "no certificate"
    if path.startswith("/plugin/"):
        of_the_cluster = path.endswith(("Address", "Network"))
        return client == "master" or (client.startswith("agent") and (own or of_the_cluster))
    match client:
        case "admin":
            return True
        case "reader":
            return reads and not path.endswith("/capture")
        case "operator":
            return _operator_may(path.removeprefix("/api/v1/"), own=own, reads=reads)
        case _:
            return False


def _operator_may(path: str, *, own: bool, reads: bool) -> bool:
    if path.startswith("inspect/globals/") or path in OF_OWN_TENANTS:
        return reads
    kind = path.removeprefix("/api/v2/").removeprefix("inspect/").partition("/")[0]
    if kind in OWN_TENANT:
        return own or (reads and "{" not in path)
    return kind == "tenants" and reads and (own or "{" not in path)


def asked(route: Route[Any], client: str, own: bool) -> tuple[str, Any]:
    """Return the path and the body of a request about an own or another tenant or host."""
    tenant = "blue" if own else "default"
    host = "h1" if own == (client == "agent") else "h2"
    kind = route.pattern.removeprefix("/api/v1/").removeprefix("/api/v2/")
    kind = kind.removeprefix("inspect/").partition("/")[0]
    key = f"{tenant}:x" if kind in OWN_TENANT else tenant
    path = route.pattern.replace("{key}", key).replace("{label}", "h9")
    path = path.replace("{tenant}", tenant).replace("{category}", "network")
    config = {"Container": f"c-{host}", "Host": host}
    names = {"TenantName": "default", "NetworkName": "n1", "Tenant": "default", "Network": "n1"}
    if not route.pattern.startswith("/plugin/"):
        return path, {"tenantName": tenant} if route.pattern.startswith("/api/v2/") else {}
    event = {"Event": "start", "ContainerID": "x", "EndpointID": f"c-{host}"}
    return path, {**names, **event, "Host": host, "ConfigEP": config}


@pytest.mark.parametrize("client", CLIENTS)
async def test_every_route_answers_those_who_may_use_it(
    certificates: Certificates, client: str
) -> None:
    """The finding of docs/notes/trust.md §2."""
    wrong = []
    # A master asks for whom it names: here for itself.
    headers = {"X-Contiv-Identity": "master/m2"} if client == "master" else {}
    context = certificates.contexts[client]
    connector = Connector(ssl=context)
    async with (
        leading(certificates.master) as (address, lead),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        for own in (True, False):
            for route in ROUTES:
                for host in ("h1", "h2"):
                    if not with_id(lead.view.endpoints, f"c-{host}"):
                        await lead.endpoint(f"c-{host}", host=host)
                path, body = asked(route, client, own)
                url = f"https://{address}{path}"
                # An endpoint of no tenant is inspected by its name; there is none of this one.
                found, _ = await ask(session, route.method, url, body, headers)
                if client in REFUSED:
                    expected = found == 0
                elif not may(client, route, own):
                    refusal = 401 if client == "no certificate" else 403
                    endpoint = client == "operator" and "/endpoints/" in path
                    expected = found == refusal or (endpoint and found in {404, 500})
                else:
                    expected = found not in {0, 401, 403}
                if not expected:
                    wrong.append(f"{route.method} {path} {body} as {client}: {found}")
    assert wrong == []


async def test_an_agent_speaks_for_its_own_host_only(certificates: Certificates) -> None:
    async with leading(certificates.master) as (address, lead):
        await lead.endpoint("mine", host="h1")
        await lead.endpoint("theirs", host="h2")
        context = certificates.contexts["agent"]

        async def call(name: str, **body: Any) -> int:
            names = {"TenantName": "default", "NetworkName": "n1"}
            names |= {"Tenant": "default", "Network": "n1"}
            url = f"https://{address}/plugin/{name}"
            return (await status(context, "POST", url, {**names, **body}))[0]

        def config(container: str, host: str) -> dict[str, str]:
            return {"Container": container, "Host": host}

        assert await call("createEndpoint", ConfigEP=config("new", "h1")) == 200
        assert await call("createEndpoint", ConfigEP=config("other", "h2")) == 403
        # It would be answered with the endpoint that is there.
        assert await call("createEndpoint", ConfigEP=config("theirs", "h1")) == 403
        start = {"Event": "start", "ContainerID": "x"}
        assert await call("updateEndpoint", EndpointID="mine", **start) == 200
        assert await call("updateEndpoint", EndpointID="theirs", **start) == 403
        assert await call("deleteEndpoint", EndpointID="theirs") == 403
        assert await call("deleteEndpoint", EndpointID="mine") == 200
        # An agent that asks again must be told that it is gone, not that it may not.
        assert await call("deleteEndpoint", EndpointID="mine") == 500
        assert {one.endpoint_id for one in lead.view.endpoints.values()} == {"new", "theirs"}


async def test_an_operator_sees_its_own_tenants_only(certificates: Certificates) -> None:
    async with leading(certificates.master) as (address, lead):
        await lead.endpoint("c1", host="h1")
        for client, seen in (("operator", "[]"), ("reader", '[{"key":"default:n1"')):
            context = certificates.contexts[client]
            found, text = await status(context, "GET", f"https://{address}/api/v1/networks/")
            assert found == 200
            assert text.startswith(seen)
        for client, shown in (("operator", 0), ("reader", 1)):
            url = f"https://{address}/api/v2/endpoints"
            found, text = await status(certificates.contexts[client], "GET", url)
            assert (found, len(json.loads(text)["items"])) == (200, shown)
        url = f"https://{address}/api/v2/trace?src=n1.default-c1&dst=8.8.8.8"
        for client, code in (("operator", 404), ("reader", 200), ("agent", 403)):
            assert (await status(certificates.contexts[client], "GET", url))[0] == code
        url = f"https://{address}/api/v1/inspect/endpoints/c1/"
        found, text = await status(certificates.contexts["operator"], "GET", url)
        assert (found, text) == (500, "endpoint not found\n")


async def test_an_operator_is_told_the_conditions_of_its_own_tenants(
    certificates: Certificates,
) -> None:
    async with leading(certificates.master) as (address, lead):
        blue = Tenant(tenant_name="blue")
        await lead.committer.submit(lambda view: tenant_plans.create(view, blue))
        await lead.network("sea", "10.9.0.0/16", tenant_name="blue")
        await lead.endpoint("c9", "sea", tenant="blue")
        await lead.endpoint("c1")
        for path, client, code in (
            ("networks/blue:sea", "operator", 200),
            ("endpoints/sea.blue-c9", "operator", 200),
            ("networks/default:n1", "operator", 403),
            ("endpoints/n1.default-c1", "operator", 404),
            ("endpoints/nobodys", "operator", 404),
            ("networks/default:n1", "reader", 200),
            ("endpoints/n1.default-c1", "reader", 200),
            ("endpoints/n1.default-c1", "agent", 403),
        ):
            url = f"https://{address}/api/v2/{path}/conditions"
            found, _ = await status(certificates.contexts[client], "GET", url)
            assert (path, client, found) == (path, client, code)


async def test_an_operator_is_told_who_may_talk_in_its_own_tenants_only(
    certificates: Certificates,
) -> None:
    async with leading(certificates.master) as (address, lead):
        blue = Tenant(tenant_name="blue")
        await lead.committer.submit(lambda view: tenant_plans.create(view, blue))
        for path, (tenant, client, code) in product(
            ("reach", "policy-suggestion"),
            (
                *(("blue", "operator", 200), ("default", "operator", 404)),
                *(("red", "operator", 404), ("default", "reader", 200)),
                *(("red", "reader", 404), ("default", "agent", 403)),
            ),
        ):
            url = f"https://{address}/api/v2/{path}?tenant={tenant}"
            found, _ = await status(certificates.contexts[client], "GET", url)
            assert (path, tenant, client, found) == (path, tenant, client, code)


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ("admin", {"name": "joe", "role": "admin", "tenants": []}),
        ("operator", {"name": "olga", "role": "operator", "tenants": ["blue"]}),
        ("reader", {"name": "rita", "role": "reader", "tenants": []}),
    ],
)
async def test_a_client_is_told_who_it_is(
    certificates: Certificates, client: str, told: dict[str, Any]
) -> None:
    async with leading(certificates.master) as (address, _):
        url = f"https://{address}/api/v2/whoami"
        found, text = await status(certificates.contexts[client], "GET", url)
        assert (found, json.loads(text)) == (200, told)


async def test_an_operator_watches_its_own_tenants_only(certificates: Certificates) -> None:
    async with leading(certificates.master) as (address, _):
        url = f"https://{address}/api/v2/events?after=1"
        for client, shown in (("operator", ["blue"]), ("reader", ["blue", "red", "red:n", "h1"])):
            found, text = await status(certificates.contexts[client], "GET", url)
            events = [line for line in text.splitlines() if line.startswith("data: ")]
            changes = json.loads(events[0].removeprefix("data: "))["changes"]
            assert (found, [change["key"] for change in changes]) == (200, shown)


async def test_a_password_gives_a_token_with_the_rights_of_its_user(
    certificates: Certificates,
) -> None:
    anonymous = certificates.contexts["no certificate"]
    async with leading(certificates.master) as (address, _):
        login = f"https://{address}/api/v1/auth_proxy/login/"
        hosts = f"https://{address}/hosts"
        wrong = {"username": "paul", "password": "wrong"}
        assert await status(anonymous, "POST", login, wrong) == (
            401,
            "Invalid username/password\n",
        )
        connector = Connector(ssl=anonymous)
        async with aiohttp.ClientSession(connector=connector) as session:
            body = {"username": "paul", "password": PASSWORD}
            async with session.post(login, json=body) as answer:
                assert answer.status == 200
                token = (await answer.json())["token"]
        headers = {"X-Auth-Token": token}
        assert (await status(anonymous, "GET", hosts, **headers))[0] == 200
        assert (await status(anonymous, "DELETE", f"{hosts}/h1", **headers))[0] == 403
        assert (await status(anonymous, "GET", hosts, **{"X-Auth-Token": "x"}))[0] == 401


async def test_a_follower_forwards_whom_it_has_verified(certificates: Certificates) -> None:
    async with leading(certificates.master) as (address, _):
        follower = RestServer()
        tls = TlsContexts(certificates.master)

        async def leader() -> str:
            return address

        proxy = Proxy(leader, "other", tls=tls)
        follower.role = proxy.answer
        own = await follower.listen(
            ListenAddress(LOOPBACK, 0), tls.server(certificate_optional=True)
        )
        try:
            forged = {"X-Contiv-Identity": "admin/joe"}
            for client, expected in (
                *(("admin", 200), ("reader", 200), ("agent", 403), ("operator", 403)),
                ("no certificate", 401),
            ):
                context = certificates.contexts[client]
                for url in (f"https://{own}/hosts", f"https://{address}/hosts"):
                    assert (await status(context, "GET", url))[0] == expected, client
                    assert (await status(context, "GET", url, **forged))[0] == expected, client
        finally:
            await follower.close()
            await proxy.close()


async def test_an_agent_that_poses_as_a_master_is_not_believed(certificates: Certificates) -> None:
    """Its certificate has the address of its host, on which a master may run as well."""
    async with leading(certificates.agent) as (address, _):
        context = TlsContexts(certificates.agent).to_masters()
        assert (await status(context, "GET", f"https://{address}/version"))[0] == 0
        context = TlsContexts(certificates.agent).to_agent("h1")
        assert (await status(context, "GET", f"https://{address}/version"))[0] == 200


@pytest.mark.parametrize("client", CLIENTS)
async def test_every_rpc_method_answers_those_who_may_call_it(
    certificates: Certificates, client: str
) -> None:
    """The finding of docs/notes/trust.md §2."""
    agent = OfnetAgent(add_master=AsyncMock(), inspect=dict)
    methods = {**OfnetMaster().methods(), **agent.methods()}
    report: dict[str, Any] = {"Revisions": {}, "Errors": []}
    calls = [
        (method, {"HostAddr": address, "HostPort": 9002, "Host": host, **report})
        for method in methods
        for address, host in (
            *((LOOPBACK, "h1"), ("192.0.2.2", "h2")),
            *((LOOPBACK, "h2"), ("192.0.2.2", "h1")),
        )
    ]
    own = {"agent": (LOOPBACK, "h1"), "agent of another host": ("192.0.2.2", "h2")}
    server = RpcServer(
        methods,
        host=LOOPBACK,
        ssl=TlsContexts(certificates.master).server(),
        refuses=call_refused,
    )
    await server.start()
    wrong = []
    try:
        rpc = RpcClient(LOOPBACK, server.port, ssl=lambda: certificates.contexts[client])
        for method, argument in calls:
            to_agent = method.startswith("OfnetAgent.")
            named = (argument["HostAddr"], argument["Host"])
            expected = client == "master" if to_agent else own.get(client) == named
            try:
                await rpc.call(method, argument)
                found = True
            except RpcFailed:
                found = False
            if found != expected:
                wrong.append(f"{method} {named} as {client}: {found}")
        rpc.close()
    finally:
        await server.close()
    assert wrong == []


@asynccontextmanager
async def serving_agent(files: TlsFiles) -> AsyncIterator[tuple[str, list[tuple[str, str]]]]:
    """Serve an agent's REST with TLS; yield its address, and method and path of all routes."""
    parts: dict[str, Any] = {name: Mock() for name in ("membership", "names", "bgp", "agents")}
    inspector = Inspector(**parts, pods=AsyncMock(), collected={})
    asked = [
        *rule_hits.routes({}, KubePolicies()),
        *kubernetes_rules.routes({}, KubePolicies(), list),
        *diagnosis.routes({}),
    ]
    asked += PolicyLog(Mock(), Mock()).routes({})
    parts = dict.fromkeys(("names", "endpoints", "peers", "sizes", "probe", "tunnels"), Mock())
    asked += HostSelfTest(ready={}, agents={}, **parts, seconds=0.1).routes()
    asked += Captures({}, Mock(), inspector).routes()
    app = inspect.application(Health({}), inspector, asked)
    routes = [
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None
    ]
    async with inspect.serve(ListenAddress(LOOPBACK, 0), app, TlsContexts(files)) as port:
        yield f"{LOOPBACK}:{port}", routes


@pytest.mark.parametrize("client", CLIENTS)
async def test_every_route_of_an_agent_answers_those_who_may_use_it(
    certificates: Certificates, client: str
) -> None:
    """The finding of docs/notes/trust.md §2."""
    reads = {"master", "admin", "reader"}
    wrong = []
    async with serving_agent(certificates.agent) as (address, routes):
        assert ("DELETE", "/debug/reclaimEndpoint/{key}") in routes
        for method, path in routes:
            url = f"https://{address}{path.replace('{key}', 'x')}"
            found, _ = await status(certificates.contexts[client], method, url)
            may_use = client in reads and (method == "GET" or client != "reader")
            may_use = may_use and (client == "master" or "/capture/" not in path)
            if client in REFUSED:
                expected = found == 0
            elif path in PATHS:
                expected = found == 200
            else:
                expected = (found not in {0, 403}) if may_use else found == 403
            if not expected:
                wrong.append(f"{method} {path} as {client}: {found}")
    assert wrong == []


async def test_a_call_with_a_wrong_argument_is_the_methods_to_refuse(
    certificates: Certificates,
) -> None:
    server = RpcServer(
        OfnetMaster().methods(),
        host=LOOPBACK,
        ssl=TlsContexts(certificates.master).server(),
        refuses=call_refused,
    )
    await server.start()
    try:
        rpc = RpcClient(LOOPBACK, server.port, ssl=TlsContexts(certificates.agent).to_masters)
        with pytest.raises(RpcFailed, match="not a node"):
            await rpc.call(control.REGISTER_NODE, {"HostAddr": ["x"], "HostPort": 1})
        with pytest.raises(
            RpcFailed, match="access denied to this certificate, which is of agent/"
        ):
            await control.register(rpc, Node("192.0.2.9", 9002))
        rpc.close()
    finally:
        await server.close()


def test_it_holds_on_the_daemons_event_loop(certificates: Certificates) -> None:
    """The daemons run on uvloop, which has a TLS implementation of its own."""

    async def ask() -> None:
        async with leading(certificates.agent) as (address, _):
            tls = TlsContexts(certificates.agent)
            contexts = (tls.to_masters(), 0), (tls.to_agent("h2"), 0), (tls.to_agent("h1"), 200)
            for context, expected in contexts:
                assert (await status(context, "GET", f"https://{address}/version"))[0] == expected
            found, _ = await status(
                certificates.contexts["admin"], "GET", f"https://{address}/hosts"
            )
            assert found == 200

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())


async def test_packets_are_shown_to_administrators_and_operators_of_the_tenant(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with leading(certificates.master) as (address, lead):
        await lead.endpoint("c1", host="h1")
        url = f"https://{address}/api/v2/endpoints/c1/capture"
        for client in ("operator", "reader", "agent", "no certificate"):
            found, _ = await status(certificates.contexts[client], "GET", url)
            assert found == {"no certificate": 401, "operator": 404}.get(client, 403), client
        began = [one for one in caplog.records if one.message == "capture began"]
        assert began == []
        # There is no agent to answer; that somebody was let in is noted before.
        with caplog.at_level("INFO", logger="audit"):
            await status(certificates.contexts["admin"], "GET", url)
    (line,) = (vars(one) for one in caplog.records if one.message == "capture began")
    assert {"user": "joe", "endpoint": "n1.default-c1", "host": "h1"}.items() <= line.items()


CROSS_SITE: Final = (
    {"Origin": "https://evil.example"},
    {"Origin": "null", "Content-Type": "text/plain;charset=UTF-8"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-site", "Content-Type": "application/x-www-form-urlencoded"},
)
"""What a browser says of a request that a stranger's page makes it send."""


@pytest.mark.parametrize("behind", ["leader", "follower"])
async def test_a_strangers_page_does_nothing_with_an_administrators_certificate(
    certificates: Certificates, behind: str
) -> None:
    connector = Connector(ssl=certificates.contexts["admin"])
    async with AsyncExitStack() as stack:
        address, lead = await stack.enter_async_context(leading(certificates.master))
        if behind == "follower":
            address = await stack.enter_async_context(following(certificates.master, address))
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        before = await lead.backend.snapshot(keys.ROOT)
        for route in ROUTES:
            for headers in CROSS_SITE:
                path, body = asked(route, "admin", own=True)
                url = f"https://{address}{path}"
                found, text = await ask(session, route.method, url, body, headers)
                assert (route, found) == (route, 403)
                assert "page of" in text
        assert await lead.backend.snapshot(keys.ROOT) == before
        own = {"Origin": f"https://{address}"}
        passing = {"program": {"Content-Type": "text/plain"}, "own": own}
        passing["modern"] = {"Sec-Fetch-Site": "same-origin"}
        for name, headers in passing.items():
            url = f"https://{address}/api/v1/tenants/{name}/"
            found, text = await ask(session, "POST", url, {"tenantName": name}, headers)
            assert (found, name in text) == (200, True), text


@asynccontextmanager
async def following(files: TlsFiles, leader: str) -> AsyncIterator[str]:
    """Serve a follower of a leader; yield its address."""
    tls = TlsContexts(files)

    async def holder() -> str:
        return leader

    server, proxy = RestServer(), Proxy(holder, "other", tls=tls)
    server.role = proxy.answer
    try:
        yield str(
            await server.listen(ListenAddress(LOOPBACK, 0), tls.server(certificate_optional=True))
        )
    finally:
        await server.close()
        await proxy.close()


async def test_a_strangers_page_learns_nothing_of_an_agent(certificates: Certificates) -> None:
    async with serving_agent(certificates.agent) as (address, routes):
        for method, path in routes:
            url = f"https://{address}{path.replace('{key}', 'x')}"
            for headers in CROSS_SITE:
                context = certificates.contexts["admin"]
                assert (await status(context, method, url, None, **headers))[0] == 403


async def test_an_operator_cannot_tell_another_tenants_endpoint_from_none(
    certificates: Certificates,
) -> None:
    """Nor its name or id, part by part."""
    async with leading(certificates.master) as (address, lead):
        await lead.endpoint("c0ffee11", host="h1")
        await lead.endpoint("c0ffee22", host="h2")
        context = certificates.contexts["operator"]
        for path in ("/api/v1/inspect/endpoints/{}/", "/api/v2/endpoints/{}/capture?seconds=1"):
            missing = await status(context, "GET", f"https://{address}{path.format('zzz')}")
            assert missing[0] in {404, 500}
            for part in ("c0ffee11", "n1.default-c0ffee11", "c0ffee1", "c0ff", "22", "e"):
                found = await status(context, "GET", f"https://{address}{path.format(part)}")
                assert found == missing
        traced = "/api/v2/trace?dst=8.8.8.8&src={}"
        for part in ("c0ffee11", "n1.default-c0ffee11", "zzz"):
            found = await status(context, "GET", f"https://{address}{traced.format(part)}")
            assert (found[0], part in found[1]) == (404, True)


class Waiting:
    """Agents that answer once `ended` is set."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.began = 0

    async def ask_all(self, *_: object, **__: object) -> Answers:
        """Answer nothing, late."""
        self.began += 1
        await self.ended.wait()
        return Answers({}, {})

    async def have_begun(self, number: int) -> None:
        """Wait until so many questions are being answered."""

        async def begun() -> bool:
            return self.began == number

        await eventually_async(begun, f"{number} questions are being answered")


async def test_an_operator_cannot_take_all_places_from_an_administrator(
    certificates: Certificates,
) -> None:
    agents, limits = Waiting(), LIMITS["sums of all hosts' rules"]
    operator, admin = (certificates.contexts[name] for name in ("operator", "admin"))
    async with leading(certificates.master, agents=agents) as (address, _):
        url = f"https://{address}/api/v2/rule-hits"
        async with asyncio.TaskGroup() as tasks:
            held = [
                tasks.create_task(status(operator, "GET", url)) for _ in range(limits.per_client)
            ]
            await agents.have_begun(limits.per_client)
            async with asyncio.timeout(WITHIN):  # with a place it would wait for the agents
                found, text = await status(operator, "GET", url)
            assert (found, "of operator/olga" in text) == (429, True)
            held.append(tasks.create_task(status(admin, "GET", url)))
            await agents.have_begun(limits.per_client + 1)
            agents.ended.set()
        assert {task.result()[0] for task in held} == {200}


async def test_an_administrator_watches_while_operators_hold_all_other_streams(
    certificates: Certificates,
) -> None:
    streams = StreamLimits(total=4, per_client=3, reserve=1)
    async with (
        leading(certificates.master, streams=streams) as (address, _),
        AsyncExitStack() as stack,
    ):
        url = f"https://{address}/api/v2/events"

        async def watch(client: str, source: str = LOOPBACK) -> int:
            connector = Connector(ssl=certificates.contexts[client], local_addr=(source, 0))
            session = aiohttp.ClientSession(connector=connector)
            await stack.enter_async_context(session)
            return (await stack.enter_async_context(session.get(url))).status

        # From several addresses: the certificate says that it is one client.
        held = [await watch("operator", f"127.0.0.{number}") for number in range(2, 7)]
        assert held == [200, 200, 200, 503, 503]
        assert await watch("reader") == 503
        assert await watch("admin") == 200


async def test_an_operator_creates_networks_within_its_tenants_prefixes(
    certificates: Certificates,
) -> None:
    """In v1, v2 and dry runs."""
    async with leading(certificates.master) as (address, lead):
        blue = Tenant(tenant_name="blue")
        await lead.committer.submit(lambda view: tenant_plans.create(view, blue))

        async def create(client: str, name: str, subnet: str) -> list[int]:
            body = {"tenantName": "blue", "networkName": name, "encap": "vxlan", "subnet": subnet}
            context = certificates.contexts[client]
            return [
                (await status(context, "POST", f"https://{address}{path}", body))[0]
                for path in (
                    f"/api/v1/networks/blue:{name}/?dryRun=true",
                    "/api/v2/networks?dryRun=true",
                    f"/api/v1/networks/blue:{name}/",
                    "/api/v2/networks",
                )
            ]

        assert await create("operator", "n1", "10.20.1.0/24") == [403, 403, 403, 403]
        limits = {"networkPrefixes": ["10.20.0.0/16"], "addressQuota": 512}
        change = f"https://{address}/api/v2/tenants/blue", limits
        assert (await status(certificates.contexts["operator"], "PATCH", *change))[0] == 403
        assert (await status(certificates.contexts["admin"], "PATCH", *change))[0] == 200
        assert await create("operator", "n1", "10.20.1.0/24") == [200, 200, 200, 409]
        assert await create("operator", "n2", "203.0.113.0/24") == [403, 403, 403, 403]
        assert await create("operator", "n2", "10.20.2.0/23") == [403, 403, 403, 403]
        assert await create("admin", "n2", "10.20.2.0/23") == [200, 200, 200, 409]
        nothing = {"networkPrefixes": [], "addressQuota": 0}
        url = change[0]
        assert (await status(certificates.contexts["admin"], "PATCH", url, nothing))[0] == 200
        assert await create("operator", "n3", "10.20.8.0/24") == [403, 403, 403, 403]


async def test_an_agent_leaves_addresses_to_the_agents_of_other_hosts(
    certificates: Certificates,
) -> None:
    async with leading(certificates.master) as (address, lead):
        await lead.network("few", "10.9.9.0/28")

        async def call(client: str, name: str, **body: str) -> tuple[int, str]:
            url = f"https://{address}/plugin/{name}"
            named = {"NetworkID": "few.default", **body}
            return await status(certificates.contexts[client], "POST", url, named)

        answers = [await call("agent", "allocAddress") for _ in range(10)]
        assert [code for code, _ in answers] == [200] * 7 + [500] * 3
        assert "host h1 has 7 of the addresses of network few.default" in answers[-1][1]
        other = "agent of another host"
        assert (await call(other, "allocAddress"))[0] == 200
        # What another host's agent has reserved stays, with the same answer.
        for client in (other, "agent"):
            before = len(lead.view.reservations)
            assert (await call(client, "releaseAddress", IPv4Address="10.9.9.1"))[0] == 200
            assert len(lead.view.reservations) == before - (client == "agent")
