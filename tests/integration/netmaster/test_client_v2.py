"""The typed client of API v2 against a running master."""

import pytest

from contivmodel.client_v2 import (
    ApiClient,
    creation,
    deletion,
    patch,
    replacement,
)
from contivmodel.objects import Global, Network, Policy, Rule, Tenant
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


@pytest.fixture
def client(running: Running) -> ApiClient:
    return ApiClient(running.master.url)


def test_an_object_is_created_changed_and_deleted(client: ApiClient) -> None:
    network = Network(
        tenant_name="default", network_name="c1", encap="vxlan", subnet="10.71.0.0/16"
    )
    made = client.make(creation(network))
    assert made is not None
    assert made.obj.key == "default:c1"
    assert client.read(Network, "default:c1") == made
    assert [one.key for one in client.list_all(Network, {"networkName": "c1"})] == ["default:c1"]
    assert client.state(Network, "default:c1")["numEndpoints"] == 0
    assert [use["key"] for use in client.address_use({"networkName": "c1"})] == ["default:c1"]
    assert list(client.hosts()) == []
    with pytest.raises(Conflict, match=r"exists already \(read the objects"):
        client.make(creation(network))
    assert client.make(deletion(Network, "default:c1", etag=made.etag)) is None
    with pytest.raises(NotFound, match="network default:c1 not found"):
        client.read(Network, "default:c1")


def test_a_change_made_twice_is_made_once(client: ApiClient) -> None:
    change = creation(Tenant(tenant_name="once"))
    assert client.make(change) == client.make(change)


def test_a_change_of_what_changed_meanwhile_is_refused(client: ApiClient) -> None:
    settings = client.read(Global, "global")
    changed = client.make(patch(Global, "global", {"vlans": "1-4000"}, etag=settings.etag))
    assert changed is not None
    assert changed.obj.vlans == "1-4000"
    with pytest.raises(PreconditionFailed, match="has the ETag"):
        client.make(replacement(settings.obj, etag=settings.etag))
    restored = client.make(replacement(settings.obj, etag=changed.etag))
    assert restored == settings


def test_a_change_is_foretold(client: ApiClient) -> None:
    change = creation(Policy(tenant_name="default", policy_name="tried"))
    told = client.foretell(change)
    assert (told.status, told.effects["complete"]) == (201, True)
    assert told.obj is not None
    assert [write["action"] for write in told.effects["writes"]] == ["put"]
    with pytest.raises(NotFound):
        client.read(Policy, "default:tried")
    made = client.make(change)
    assert made is not None
    assert made.obj == told.obj


def test_lists_are_read_page_by_page(client: ApiClient) -> None:
    client.make(creation(Policy(tenant_name="default", policy_name="paged")))
    for number in range(5):
        rule = Rule(
            tenant_name="default",
            policy_name="paged",
            rule_id=str(number),
            direction="in",
            action="deny",
        )
        client.make(creation(rule))
    found = client.list_all(Rule, {"policyName": "paged"}, limit=2)
    assert [rule.rule_id for rule in found] == ["0", "1", "2", "3", "4"]


def test_errors_are_those_of_the_project(client: ApiClient, running: Running) -> None:
    with pytest.raises(Invalid, match="subnet string invalid format"):
        client.make(creation(Network(tenant_name="default", network_name="x", encap="vlan")))
    with pytest.raises(Malformed, match="unknown parameter colour"):
        list(client.list_all(Network, {"colour": "red"}))
    with pytest.raises(MasterUnavailable, match="connection refused"):
        next(ApiClient("http://127.0.0.1:1").events())
    with pytest.raises(Malformed, match="-1 is not the id of an event"):
        next(ApiClient(running.master.url).events(after="a.-1"))
    with pytest.raises(MasterRefused, match="404"):
        ApiClient(f"{running.master.url}/nowhere").read(Tenant, "default")
