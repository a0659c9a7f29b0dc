"""The typed clients of API v2, blocking and of asyncio, against a running master."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final, TypeVar

import pytest

from contivmodel import calls_v2
from contivmodel.calls_v2 import (
    ApiChange,
    Call,
    DryRunResult,
    Events,
    Listing,
    Packet,
    Versioned,
    creation,
    deletion,
    patch,
    replacement,
)
from contivmodel.client_async import AsyncApiClient
from contivmodel.client_v2 import ApiClient
from contivmodel.objects import Global, Network, Policy, RestObject, Rule, Tenant
from core.errors import (
    Conflict,
    Invalid,
    Malformed,
    MasterRefused,
    MasterUnavailable,
    NotFound,
    PreconditionFailed,
)
from tests.integration.netmaster.conftest import Running

pytestmark = pytest.mark.store

M = TypeVar("M", bound=RestObject)
T = TypeVar("T")
NOBODY: Final = "http://127.0.0.1:1"


class Awaited:
    """A client of asyncio as a blocking one: each call runs its loop until the answer is there."""

    def __init__(self, masters: str | list[str]) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncApiClient(masters)

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def ask(self, call: Call[T]) -> T:
        return self._runner.run(self._client.ask(call))

    def each(self, listing: Listing[T]) -> Iterator[T]:
        return self._all(self._client.each(listing))

    def read(self, model: type[M], key: str) -> Versioned[M]:
        return self._runner.run(self._client.read(model, key))

    def list_all(self, model: type[M], having: Mapping[str, str] | None = None) -> Iterator[M]:
        return self._all(self._client.list_all(model, having))

    def make(self, change: ApiChange[M]) -> Versioned[M] | None:
        return self._runner.run(self._client.make(change))

    def preview(self, change: ApiChange[M]) -> DryRunResult[M]:
        return self._runner.run(self._client.preview(change))

    def events(self, after: str | None = None) -> Iterator[Events]:
        return self._all(self._client.events(after))

    def follow(self, model: type[M]) -> Iterator[Mapping[str, M]]:
        return self._all(self._client.follow(model))

    def _all(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T | None:
            return await anext(items, None)

        while (one := self._runner.run(following())) is not None:
            yield one


Client = ApiClient | Awaited
Connect = Callable[[str | list[str]], Client]


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return what makes clients of a kind."""
    opened: list[Awaited] = []

    def made(masters: str | list[str]) -> Client:
        if request.param == "blocking":
            return ApiClient(masters)
        opened.append(Awaited(masters))
        return opened[-1]

    yield made
    for one in opened:
        one.close()


@pytest.fixture
def client(connect: Connect, running: Running) -> Client:
    return connect(running.master.url)


@pytest.fixture
def own(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test uses."""
    test = request.node.originalname.removeprefix("test_").replace("_", "-")[:15]
    return f"{test}-{request.node.callspec.params['connect']}"


def test_an_object_is_created_changed_and_deleted(client: Client, own: str) -> None:
    network = Network(tenant_name="default", network_name=own, encap="vxlan", subnet="10.71.0.0/16")
    made = client.make(creation(network))
    assert made is not None
    assert made.obj.key == f"default:{own}"
    assert client.read(Network, made.obj.key) == made
    assert [one.key for one in client.list_all(Network, {"networkName": own})] == [made.obj.key]
    assert client.ask(calls_v2.state_of(Network, made.obj.key))["numEndpoints"] == 0
    used = client.each(calls_v2.address_use({"networkName": own}))
    assert [use["key"] for use in used] == [made.obj.key]
    assert list(client.each(calls_v2.hosts())) == []
    with pytest.raises(Conflict, match=r"exists already \(read the objects"):
        client.make(creation(network))
    assert client.make(deletion(Network, made.obj.key, etag=made.etag)) is None
    with pytest.raises(NotFound, match=f"network default:{own} not found"):
        client.read(Network, made.obj.key)


def test_endpoints_are_found_and_traced(client: Client, running: Running, own: str) -> None:
    network = Network(tenant_name="default", network_name=own, encap="vxlan", subnet="10.72.0.0/16")
    client.make(creation(network))
    placed = {"TenantName": "default", "NetworkName": own}
    for container in ("one", "two"):
        config = {"Container": container, "Host": "h1"}
        asked = {**placed, "EndpointID": container, "ConfigEP": config}
        assert running.master.ask("POST", "/plugin/createEndpoint", asked).status == 200
    found = list(client.each(calls_v2.endpoints({"network": own})))
    assert {one["endpointID"] for one in found} == {"one", "two"}
    assert list(client.each(calls_v2.endpoints({"network": own}, labels=["app=web"]))) == []
    one, two = (endpoint["key"] for endpoint in found)
    told = client.ask(calls_v2.trace(Packet(src=one, dst=two, proto="tcp", port=80)))
    assert told["outcome"] == "broken"  # no agent says what its host would do
    assert told["source"] == f"endpoint {one} on host h1"
    assert "hosts" in client.ask(calls_v2.self_test())
    with pytest.raises(NotFound, match="no endpoint, service or host is called nosuch"):
        client.ask(calls_v2.trace(Packet(src=one, dst="nosuch")))
    for container in ("one", "two"):
        asked = {**placed, "EndpointID": container}
        assert running.master.ask("POST", "/plugin/deleteEndpoint", asked).status == 200
    client.make(deletion(Network, f"default:{own}"))


def test_a_change_made_twice_is_made_once(client: Client, own: str) -> None:
    change = creation(Tenant(tenant_name=own))
    assert client.make(change) == client.make(change)


def test_a_change_of_what_changed_meanwhile_is_refused(client: Client) -> None:
    settings = client.read(Global, "global")
    changed = client.make(patch(Global, "global", {"vlans": "1-4000"}, etag=settings.etag))
    assert changed is not None
    assert changed.obj.vlans == "1-4000"
    with pytest.raises(PreconditionFailed, match="has the ETag"):
        client.make(replacement(settings.obj, etag=settings.etag))
    restored = client.make(replacement(settings.obj, etag=changed.etag))
    assert restored == settings


def test_a_change_is_previewed(client: Client, own: str) -> None:
    change = creation(Policy(tenant_name="default", policy_name=own))
    told = client.preview(change)
    assert (told.status, told.effects["complete"]) == (201, True)
    assert told.obj is not None
    assert [write["action"] for write in told.effects["writes"]] == ["put"]
    with pytest.raises(NotFound):
        client.read(Policy, f"default:{own}")
    made = client.make(change)
    assert made is not None
    assert made.obj == told.obj


def test_lists_are_read_page_by_page(client: Client, own: str) -> None:
    client.make(creation(Policy(tenant_name="default", policy_name=own)))
    for number in range(5):
        rule = Rule(
            tenant_name="default",
            policy_name=own,
            rule_id=str(number),
            direction="in",
            action="deny",
        )
        client.make(creation(rule))
    found = client.each(calls_v2.objects(Rule, {"policyName": own}, limit=2))
    assert [rule.rule_id for rule in found] == ["0", "1", "2", "3", "4"]
    hits = client.ask(calls_v2.rule_hits("default", own))["items"]
    assert [one["rule"] for one in hits] == [f"default:{own}:{number}" for number in range(5)]
    nothing = {"items": [], "services": [], "complete": True, "unreachable": {}}
    assert client.ask(calls_v2.kubernetes_rules("shop", "web")) == nothing


def test_a_master_that_is_gone_is_passed_over(connect: Connect, running: Running, own: str) -> None:
    for masters in ([NOBODY, running.master.url], f"{NOBODY},{running.master.url}/"):
        client = connect(masters)
        change = creation(Tenant(tenant_name=own))
        assert client.make(change) is not None  # it was not sent to the first one
        assert client.read(Tenant, own).obj.tenant_name == own
        assert next(client.events()).changes == ()
        client.make(deletion(Tenant, own))
    with pytest.raises(MasterUnavailable) as none:
        connect([NOBODY, f"{NOBODY}1"]).read(Tenant, own)
    assert none.value.outcome_unknown is False


def test_errors_are_those_of_the_project(
    client: Client, connect: Connect, running: Running
) -> None:
    with pytest.raises(Invalid, match="subnet string invalid format"):
        client.make(creation(Network(tenant_name="default", network_name="x", encap="vlan")))
    with pytest.raises(Malformed, match="unknown parameter colour"):
        list(client.list_all(Network, {"colour": "red"}))
    with pytest.raises(MasterUnavailable, match=r"(?i)connect"):
        next(connect(NOBODY).events())
    with pytest.raises(Malformed, match="-1 is not the id of an event"):
        next(client.events(after="a.-1"))
    with pytest.raises(MasterRefused, match="404"):
        connect(f"{running.master.url}/nowhere").read(Tenant, "default")
