"""API v2 on a real server: every route with what may be wrong about a request, as one table.

The server is a leader's on the memory store; several masters on a real one are in
`tests/integration/netmaster/test_events.py`.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest.mock import Mock

import aiohttp
import pytest

from core import keys
from core.errors import StoreUnavailable
from daemons.listen_address import ListenAddress
from netmaster.api.dispatch import Leader
from netmaster.api.http.routes import Route
from netmaster.api.http.server import RestServer
from netmaster.api.route_table import ROUTES
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.api.v2 import idempotency
from netmaster.external.external_effects import ExternalEffects
from netmaster.plan.model import Plan
from tests.unit.netmaster.fake_docker import FakeDocker
from tests.unit.netmaster.fake_gateway import FakeGateway
from tests.unit.netmaster.term import Term, context_of, term

LOOPBACK: Final = "127.0.0.1"
JSON: Final = {"Content-Type": "application/json"}
STALE: Final = '"0123456789"'
Json = dict[str, Any]

TENANT: Final = {"tenantName": "default"}
BODIES: Final[dict[str, tuple[str, Json, Json]]] = {
    "tenants": ("blue", {"tenantName": "blue"}, {}),
    "networks": (
        "default:n2",
        {**TENANT, "networkName": "n2", "encap": "vxlan", "subnet": "10.2.0.0/24"},
        {},
    ),
    "endpointGroups": (
        "default:g2",
        {**TENANT, "networkName": "n1", "groupName": "g2"},
        {"policies": ["p1"]},
    ),
    "policys": ("default:p2", {**TENANT, "policyName": "p2"}, {}),
    "rules": (
        "default:p1:2",
        {**TENANT, "policyName": "p1", "ruleId": "2", "direction": "in", "action": "allow"},
        {},
    ),
    "netprofiles": (
        "default:b2",
        {**TENANT, "profileName": "b2", "bandwidth": "10 mbps", "burst": 1500, "DSCP": 3},
        {"DSCP": 5},
    ),
    "extContractsGroups": (
        "default:x2",
        {**TENANT, "contractsGroupName": "x2", "contractsType": "consumed", "contracts": ["c"]},
        {},
    ),
    "appProfiles": (
        "default:a2",
        {**TENANT, "appProfileName": "a2", "endpointGroups": ["g1"]},
        {"endpointGroups": []},
    ),
    "aciGws": (
        "aciGw",
        {
            "name": "aciGw",
            "enforcePolicies": "yes",
            "includeCommonTenant": "no",
            "physicalDomain": "d",
        },
        {"enforcePolicies": "no"},
    ),
    "serviceLBs": (
        "default:s2",
        {
            **TENANT,
            "serviceName": "s2",
            "networkName": "n1",
            "ports": ["80:8080:TCP"],
            "selectors": ["app=web"],
        },
        {"ports": ["81:8080:TCP"]},
    ),
    "Bgps": (
        "h1",
        {
            "hostname": "h1",
            "routerip": "50.1.1.1/24",
            "as": "65002",
            "neighbor": "50.1.1.2",
            "neighbor-as": "65000",
        },
        {"neighbor": "50.1.1.3"},
    ),
    "globals": (
        "global",
        {
            "name": "global",
            "vlans": "1-4094",
            "vxlans": "1-10000",
            "fwdMode": "routing",
            "arpMode": "proxy",
            "pvtSubnet": "172.19.0.0/16",
            "networkInfraType": "default",
        },
        {"vlans": "1-4000"},
    ),
}
"""By class: a key, an object that can be created, and a change that it takes, if any."""
READ_ONLY: Final = {"volumes", "volumeProfiles"}
"""Classes whose objects cannot be created, as in v1."""


@dataclass
class Reply:
    """An answer, read whole."""

    status: int
    headers: Any
    text: str

    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def type(self) -> str:
        """The kind of problem it is."""
        assert self.headers["Content-Type"] == "application/problem+json", self.text
        problem = self.json()
        assert problem["status"] == self.status
        assert problem["remedy"]
        return str(problem["type"].removeprefix("urn:contiv:problem:"))


@dataclass
class Served:
    """A leader's server."""

    lead: Term
    leader: Leader
    session: aiohttp.ClientSession
    url: str

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        data = body if isinstance(body, bytes | io.BytesIO | None) else json.dumps(body).encode()
        sent = (JSON if data is not None else {}) | (headers or {})
        skipped = ("Content-Type",)
        async with self.session.request(
            method, self.url + path, data=data, headers=sent, skip_auto_headers=skipped
        ) as answer:
            return Reply(answer.status, answer.headers.copy(), await answer.text())

    def stored(self) -> dict[str, bytes]:
        """Return what the leader's store holds."""
        entries = self.lead.backend.store.snapshot(keys.ROOT).entries
        return {key: entry.value for key, entry in entries.items() if "/commit/" not in key}


@asynccontextmanager
async def serving(lead: Term, **more: Any) -> AsyncIterator[Served]:
    """Serve a leader's API on loopback."""
    external = ExternalEffects(lead.committer, FakeGateway(), FakeDocker(), mode="kubernetes")
    leader = Leader(replace(context_of(lead, external.change), **more))
    server = RestServer()
    server.role = leader.answer
    address = await server.listen(ListenAddress(LOOPBACK, 0))
    try:
        async with aiohttp.ClientSession() as session:
            yield Served(lead, leader, session, f"http://{address}")
    finally:
        await server.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Serve a cluster with a network, a group and a policy with a rule."""
    async with term() as lead, serving(lead) as served:
        await lead.network("n1")
        for plural, body in (
            ("policys", {**TENANT, "policyName": "p1"}),
            ("endpointGroups", {**TENANT, "networkName": "n1", "groupName": "g1"}),
        ):
            made = await served.ask("POST", f"/api/v2/{plural}", body)
            assert made.status == 201, made.text
        await lead.rule("1")
        yield served


def item(plural: str) -> str:
    return f"/api/v2/{plural}/{BODIES[plural][0]}"


async def made(served: Served, plural: str) -> Reply:
    """Create the object of a class, or read it where there is one."""
    found = await served.ask("PUT", item(plural), BODIES[plural][1])
    assert found.status in {200, 201}, found.text
    return found


@dataclass(frozen=True)
class Fault:
    """What is wrong about a request: it has another query, body or header; and what it gets."""

    status: int
    type: str
    query: str = ""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def malformed(query: str = "", **more: Any) -> Fault:
    return Fault(400, "malformed-request", query, **more)


UNKNOWN_FIELD: Final = {"colour": "red", "links": {}}
PAGES: Final = {
    f"bad page {limit}": malformed(f"limit={limit}")
    for limit in ("0", "x", "-1", "5001", "", "9" * 30)
}
TOKENS: Final = {
    f"bad token {token}": malformed(f"after={token}") for token in ("%25", "a", "%c3%a9", "_w")
}
ANY: Final = {"unknown parameter": malformed("colour=red")}
CHANGES: Final = {
    "bad dry run": malformed("dryRun=maybe"),
    "bad ETag": malformed(headers={"If-Match": "W/nonsense"}),
    "ETag of time": Fault(412, "precondition-failed", headers={"If-Unmodified-Since": "now"}),
    "bad idempotency key": malformed(headers={"Idempotency-Key": "a b"}),
}
BODY_FAULTS: Final = {
    "unknown field": Fault(422, "invalid-value", body=UNKNOWN_FIELD),
    "no JSON": malformed(body=b'{"a":'),
    "named twice": malformed(body=b'{"key":"a","key":"a"}'),
    "no object": malformed(body=b"[]"),
    "other type": Fault(415, "unsupported-media-type", headers={"Content-Type": "text/plain"}),
}
STALE_ETAG: Final = Fault(412, "precondition-failed", headers={"If-Match": STALE})
ABSENT: Final = Fault(404, "not-found")


def faults_of(route: Route[Any]) -> dict[str, Fault]:
    """Return what may be wrong about a request of a route of v2."""
    found = dict(ANY)
    one = "{" in route.pattern
    plural = route.pattern.split("/")[3]
    if one and route.method != "PUT":
        found["absent"] = ABSENT
    if route.method == "GET" and not one:
        found |= PAGES
        if plural != "endpoints":
            found |= TOKENS | {"unknown field": malformed("fields=key,colour")}
    if route.method != "GET" and plural in OBJECT_KINDS:
        found |= CHANGES
        if plural not in READ_ONLY:
            found["stale ETag"] = STALE_ETAG
    there = route.method != "PATCH" or plural not in READ_ONLY
    if route.method in {"POST", "PUT", "PATCH"} and there:
        found |= BODY_FAULTS
    return found


OBJECT_KINDS: Final = frozenset(BODIES) | READ_ONLY
"""Only their changes have conditions and dry runs."""
ASKING_HOSTS: Final = {
    *("/api/v2/trace", "/api/v2/selftest", "/api/v2/rule-hits", "/api/v2/diagnosis"),
    *("/api/v2/endpoints/{key}/capture", "/api/v2/policy-log", "/api/v2/kubernetes-rules"),
    *("/api/v2/flows", "/api/v2/flows/watch", "/api/v2/policy-suggestion"),
}
"""What agents answer is no list of objects; `tests/system/test_diagnostics.py` and
`tests/system/test_trace.py` ask."""
NO_LISTS: Final = {"/api/v2/overview", "/api/v2/reach", "/api/v2/whoami"}
"""What netmaster answers as a whole."""
V2: Final = [
    route
    for route in ROUTES
    if route.pattern.startswith("/api/v2/")
    and route.pattern not in {"/api/v2/events", *ASKING_HOSTS, *NO_LISTS}
]
ROWS: Final = [(route, what, fault) for route in V2 for what, fault in faults_of(route).items()]


def test_the_table_has_every_class_and_route() -> None:
    assert set(OBJECT_CLASSES) == set(BODIES) | READ_ONLY
    assert len(V2) == 14 * 6 + 8 + 7 + 5
    assert len(ROWS) > 600


async def test_every_route_with_what_may_be_wrong(served: Served) -> None:
    wrong = []
    for route, what, fault in ROWS:
        if route.pattern.split("/")[3] in BODIES and "{key}" in route.pattern:
            await made(served, route.pattern.split("/")[3])
        before = served.stored()
        reply = await sent(served, route, what, fault)
        if (reply.status, reply.type) != (fault.status, fault.type):
            wrong.append(f"{route.method} {route.pattern} {what}: {reply.status} {reply.text}")
        if served.stored() != before:
            wrong.append(f"{route.method} {route.pattern} {what}: changed the store")
        if fault.body is UNKNOWN_FIELD:
            pointers = {each["pointer"] for each in reply.json()["errors"]}
            assert {"#/colour", "#/links"} <= pointers
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "code", "kind"),
    [
        ("reach", 422, "invalid-value"),
        ("reach?tenant=", 422, "invalid-value"),
        ("reach?tenant=nope", 404, "not-found"),
        ("reach?tenant=default&colour=red", 400, "malformed-request"),
        ("whoami?colour=red", 400, "malformed-request"),
        ("policy-suggestion", 422, "invalid-value"),
        ("policy-suggestion?tenant=nope", 404, "not-found"),
        ("policy-suggestion?tenant=default&groups=nope", 404, "not-found"),
        ("policy-suggestion?tenant=default&since=noon", 400, "malformed-request"),
        ("policy-suggestion?tenant=default&dropped=yes", 422, "invalid-value"),
    ],
)
async def test_what_is_no_list_refuses_what_is_wrong(
    served: Served, path: str, code: int, kind: str
) -> None:
    reply = await served.ask("GET", f"/api/v2/{path}")
    assert (reply.status, reply.type) == (code, kind)


async def test_the_reach_of_groups_names_the_rule_that_decides(served: Served) -> None:
    rule = {**TENANT, "policyName": "p1", "ruleId": "2", "direction": "in", "action": "deny"}
    made = await served.ask("POST", "/api/v2/rules", {**rule, "priority": 2, "protocol": "tcp"})
    assert made.status == 201, made.text
    changed = await served.ask("PATCH", "/api/v2/endpointGroups/default:g1", {"policies": ["p1"]})
    assert changed.status == 200, changed.text
    told = (await served.ask("GET", "/api/v2/reach?tenant=default")).json()
    assert told["groups"] == [{"name": "g1", "endpoints": 0}]
    (pair,) = told["pairs"]
    by = {one["traffic"]: (one["verdict"], one["by"]) for one in pair["traffic"]}
    assert by["tcp"] == ("denied", ["default:p1:2"])


async def test_everybody_is_an_administrator_without_tls(served: Served) -> None:
    told = (await served.ask("GET", "/api/v2/whoami")).json()
    assert told == {"name": "", "role": "admin", "tenants": []}


async def sent(served: Served, route: Route[Any], what: str, fault: Fault) -> Reply:
    """Send a request with a fault."""
    key, body, change = BODIES.get(route.pattern.split("/")[3], ("default:x", {}, {}))
    absent = what == "absent"
    path = route.pattern.replace("{key}", "default:nope" if absent else key)
    path = path.replace("{label}", "nope")
    if fault.query:
        path += f"?{fault.query}"
    if route.method in {"GET", "DELETE"}:
        return await served.ask(route.method, path, None, fault.headers)
    whole: Json = change if route.method == "PATCH" else body
    if isinstance(fault.body, dict):
        whole = {**whole, **fault.body}
    raw = fault.body if isinstance(fault.body, bytes) else whole
    return await served.ask(route.method, path, raw, fault.headers)


@pytest.mark.parametrize("plural", BODIES)
async def test_a_dry_run_tells_what_is_then_done(served: Served, plural: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        await try_and_do(served, method, plural)


async def try_and_do(served: Served, method: str, plural: str) -> None:
    """Try a change, which writes nothing, and make it; both must tell the same."""
    _, body, change = BODIES[plural]
    path = f"/api/v2/{plural}" if method == "POST" else item(plural)
    if method == "POST":
        await served.ask("DELETE", item(plural))
    else:
        await made(served, plural)
    data = {"DELETE": None, "PATCH": change}.get(method, body)
    before = served.stored()
    tried = await served.ask(method, f"{path}?dryRun=true", data)
    assert tried.status == 200, tried.text
    assert served.stored() == before
    done = await served.ask(method, path, data)
    told = tried.json()
    assert told["status"] == done.status, (tried.text, done.text)
    assert told["etag"] == done.headers.get("ETag", "")
    assert told["object"] == (done.json() if done.text else None)
    after = served.stored()
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    changed = {key for key in changed if not key.startswith(keys.CHANGES)}  # who did it
    assert {each["key"] for each in told["effects"]["writes"]} == changed
    assert told["effects"]["complete"] is True


@pytest.mark.parametrize("plural", BODIES)
async def test_an_object_lives(served: Served, plural: str) -> None:
    _, body, change = BODIES[plural]
    path = item(plural)
    if plural == "globals":
        assert (await served.ask("DELETE", path)).status == 204
    created = await served.ask("POST", f"/api/v2/{plural}", body)
    assert created.status == 201, created.text
    assert created.headers["Location"] == path
    assert body.items() <= created.json().items()
    again = await served.ask("POST", f"/api/v2/{plural}", body)
    assert (again.status, again.type) == (409, "conflict")
    read = await served.ask("GET", path)
    assert (read.status, read.json()) == (200, created.json())
    assert read.headers["ETag"] == created.headers["ETag"]
    same = await served.ask("GET", path, headers={"If-None-Match": read.headers["ETag"]})
    assert (same.status, same.text) == (304, "")
    unchanged = await served.ask("PUT", path, read.json())
    assert (unchanged.status, unchanged.json()) == (200, read.json()), unchanged.text
    listed = await served.ask("GET", f"/api/v2/{plural}")
    assert read.json() in listed.json()["items"]
    if change:
        patched = await served.ask("PATCH", path, change, {"If-Match": read.headers["ETag"]})
        assert patched.status == 200, patched.text
        assert patched.json() == {**read.json(), **change}
        assert patched.headers["ETag"] != read.headers["ETag"]
        put = await served.ask("PUT", path, read.json(), {"If-Match": patched.headers["ETag"]})
        assert (put.status, put.json()) == (200, read.json()), put.text
    gone = await served.ask("DELETE", path, headers={"If-Match": read.headers["ETag"]})
    assert (gone.status, gone.text) == (204, "")
    assert (await served.ask("GET", path)).status == 404
    put = await served.ask("PUT", path, body)
    assert put.status == 201, put.text


async def test_v1_and_v2_show_the_same_objects(served: Served) -> None:
    for plural in BODIES:
        await made(served, plural)
        ones = (await served.ask("GET", f"/api/v1/{plural}/")).json()
        twos = (await served.ask("GET", f"/api/v2/{plural}")).json()["items"]
        full = [{n: v for n, v in two.items() if v not in ("", 0, [])} for two in twos]
        bare = [{n: v for n, v in one.items() if n not in {"links", "link-sets"}} for one in ones]
        assert full == sorted(bare, key=lambda one: str(one["key"]))


async def test_pages_have_each_object_once(served: Served) -> None:
    for number in range(7):
        await served.lead.rule(f"r{number}")
    found, after = [], ""
    while True:
        query = f"limit=3&fields=ruleId{f'&after={after}' if after else ''}"
        page = (await served.ask("GET", f"/api/v2/rules?{query}")).json()
        assert len(page["items"]) <= 3
        assert all(set(one) == {"key", "ruleId"} for one in page["items"])
        found += [one["ruleId"] for one in page["items"]]
        after = page["next"]
        if not after:
            break
    assert found == ["1", *(f"r{number}" for number in range(7))]
    named = await served.ask("GET", "/api/v2/rules?ruleId=r3&policyName=p1")
    assert [one["key"] for one in named.json()["items"]] == ["default:p1:r3"]
    none = await served.ask("GET", "/api/v2/rules?ruleId=r3&policyName=p2")
    assert none.json()["items"] == []
    groups = await served.ask("GET", "/api/v2/endpointGroups?policies=p1")
    assert groups.json()["items"] == []


async def test_a_key_makes_a_change_once(served: Served) -> None:
    body = {"tenantName": "blue"}
    key = {"Idempotency-Key": "k1"}
    first = await served.ask("POST", "/api/v2/tenants", body, key)
    before = served.stored()
    again = await served.ask("POST", "/api/v2/tenants", body, key)
    assert (again.status, again.text, again.headers["ETag"], again.headers["Location"]) == (
        first.status,
        first.text,
        first.headers["ETag"],
        first.headers["Location"],
    )
    assert (first.headers.get(idempotency.REPLAYED), again.headers[idempotency.REPLAYED]) == (
        None,
        "true",
    )
    other = await served.ask("POST", "/api/v2/tenants", {"tenantName": "red"}, key)
    assert (other.status, other.type) == (422, "idempotency-key-reused")
    assert served.stored() == before
    gone = await served.ask("DELETE", "/api/v2/tenants/blue", None, {"Idempotency-Key": "k2"})
    twice = await served.ask("DELETE", "/api/v2/tenants/blue", None, {"Idempotency-Key": "k2"})
    assert (gone.status, twice.status) == (204, 204)
    for wrong in ("", "x" * 129, "a b"):
        refused = await served.ask("DELETE", "/api/v2/tenants/x", None, {"Idempotency-Key": wrong})
        assert (refused.status, refused.type) == (400, "malformed-request")


async def test_requests_with_one_key_at_once_make_one_change(served: Served) -> None:
    key = {"Idempotency-Key": "k1"}
    body = BODIES["networks"][1]
    asked = [served.ask("POST", "/api/v2/networks", body, key) for _ in range(8)]
    replies = await asyncio.gather(*asked)
    assert {reply.status for reply in replies} == {201}
    assert sum(idempotency.REPLAYED in reply.headers for reply in replies) == 7


async def test_a_refused_change_leaves_its_key(served: Served) -> None:
    key = {"Idempotency-Key": "k1"}
    body = {**TENANT, "networkName": "later", "groupName": "g9"}
    refused = await served.ask("POST", "/api/v2/endpointGroups", body, key)
    assert (refused.status, refused.type) == (422, "invalid-value")
    await served.lead.network("later", "10.9.0.0/24")
    made = await served.ask("POST", "/api/v2/endpointGroups", body, key)
    assert (made.status, idempotency.REPLAYED in made.headers) == (201, False)


async def test_a_key_outlives_its_leader() -> None:
    body, key = {"tenantName": "blue"}, {"Idempotency-Key": "k1"}
    async with term() as lead:
        async with serving(lead) as served:
            first = await served.ask("POST", "/api/v2/tenants", body, key)
        store = lead.backend.store
    async with term(store) as lead, serving(lead) as served:
        again = await served.ask("POST", "/api/v2/tenants", body, key)
        assert (again.status, again.text) == (201, first.text)
        assert again.headers[idempotency.REPLAYED] == "true"


async def test_what_cannot_be_changed_is_refused_not_ignored(served: Served) -> None:
    await made(served, "endpointGroups")
    path = item("endpointGroups")
    tag = await served.ask("PATCH", path, {"cfgdTag": "other"})
    assert (tag.status, tag.type) == (409, "conflict")
    assert "cfgdTag stays '' and cannot be 'other'" in tag.json()["detail"]
    cleared = await served.ask("PATCH", "/api/v2/globals/global", {"fwdMode": None})
    assert (cleared.status, cleared.type) == (409, "conflict")
    moved = await served.ask("PATCH", path, {"groupName": "g3"})
    assert (moved.status, moved.type) == (422, "invalid-value")


async def test_an_unknown_outcome_has_a_type_of_its_own(served: Served) -> None:
    async def lost(_decide: Any) -> object:
        raise StoreUnavailable("the store did not answer", outcome_unknown=True)

    async with serving(served.lead, effects=Mock(change=lost)) as cut_off:
        reply = await cut_off.ask("POST", "/api/v2/tenants", {"tenantName": "blue"})
        assert (reply.status, reply.type) == (503, "outcome-unknown")
        assert reply.headers["Contiv-Outcome"] == "unknown"
        assert reply.headers["Retry-After"] == "1"
        v1 = await cut_off.ask("POST", "/api/v1/tenants/blue/", {"tenantName": "blue"})
        assert (v1.status, v1.text.startswith("outcome unknown: ")) == (500, True)


async def test_a_dry_run_says_what_it_would_be_refused_with(served: Served) -> None:
    refused = await served.ask("DELETE", "/api/v2/networks/default:n1?dryRun=true")
    assert (refused.status, refused.type) == (409, "conflict")
    bad = await served.ask(
        "POST", "/api/v2/networks?dryRun=true", {**TENANT, "networkName": "n", "encap": "x"}
    )
    assert {each["pointer"] for each in bad.json()["errors"]} == {"#/encap", "#/subnet"}


async def test_a_dry_run_tells_all_parts_of_a_change(served: Served) -> None:
    for number in range(60):
        await served.lead.rule(f"r{number}")
    before = served.stored()
    told = (await served.ask("DELETE", "/api/v2/policys/default:p1?dryRun=true")).json()
    assert served.stored() == before
    deleted = {each["key"] for each in told["effects"]["writes"] if each["action"] == "delete"}
    assert {key for key in before if key.startswith(keys.RULES)} <= deleted
    assert len(deleted) == 62


async def test_states_hosts_and_addresses_are_read(served: Served) -> None:
    await served.lead.endpoint("c1", host="h1")
    state = (await served.ask("GET", "/api/v2/networks/default:n1/state")).json()
    assert (state["numEndpoints"], state["pktTag"]) == (1, 1)
    service = await made(served, "serviceLBs")
    providers = (await served.ask("GET", f"{item('serviceLBs')}/state")).json()
    assert (service.status, providers["providers"]) == (201, [])
    use = (await served.ask("GET", "/api/v2/ipam?networkName=n1")).json()["items"]
    assert [(one["key"], one["size"], one["granted"]) for one in use] == [("default:n1", 254, 2)]
    hosts = await served.ask("GET", "/api/v2/hosts?registered=true")
    assert hosts.json()["items"] == []


async def test_other_methods_and_paths_are_problems_too(served: Served) -> None:
    put = await served.ask("PUT", "/api/v2/networks", {})
    assert (put.status, put.type, put.headers["Allow"]) == (405, "method-not-allowed", "GET, POST")
    nope = await served.ask("GET", "/api/v2/nope")
    assert (nope.status, nope.type) == (404, "no-such-path")
    large = await served.ask("POST", "/api/v2/tenants", io.BytesIO(b"x" * (2 << 20)))
    assert (large.status, large.type) == (413, "too-large")


async def test_a_bug_is_a_problem_too(served: Served) -> None:
    async def broken(_decide: Any) -> object:
        return Plan((), reply=None)

    async with serving(served.lead, effects=Mock(change=broken)) as failing:
        reply = await failing.ask("POST", "/api/v2/tenants", {"tenantName": "blue"})
        assert (reply.status, reply.type) == (500, "internal-error")
