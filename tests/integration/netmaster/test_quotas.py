"""Quotas of a tenant and kept addresses on a real store: many clients, and a leader's successor."""

from collections import Counter

import pytest

from tests.integration.netmaster.conftest import Running
from tests.integration.netmaster.many_clients import on_all_clients

pytestmark = pytest.mark.store

CLIENTS = 50
EACH = 4
QUOTA = 23


def _tenant(running: Running, name: str, **quotas: int) -> None:
    body = {"tenantName": name, **quotas}
    assert running.master.ask("POST", "/api/v2/tenants", body).status == 201
    for path, more in (
        ("networks", {"networkName": "n", "encap": "vxlan", "subnet": "10.1.0.0/16"}),
        ("policys", {"policyName": "p"}),
    ):
        answer = running.master.ask("POST", f"/api/v2/{path}", {"tenantName": name, **more})
        assert answer.status == 201, answer.text


def _objects(of: str, number: int) -> dict[str, dict[str, object]]:
    own: dict[str, object] = {"tenantName": of}
    network = {"networkName": f"n{number}", "encap": "vxlan", "subnet": f"10.{number + 2}.0.0/24"}
    rule = {"policyName": "p", "ruleId": str(number), "direction": "in", "action": "allow"}
    return {
        "networks": own | network,
        "endpointGroups": own | {"groupName": f"g{number}", "networkName": "n"},
        "policys": own | {"policyName": f"p{number}"},
        "rules": own | rule,
    }


QUOTAS = {
    "networks": "networkQuota",
    "endpointGroups": "groupQuota",
    "policys": "policyQuota",
    "rules": "ruleQuota",
}


@pytest.mark.parametrize("plural", list(QUOTAS))
def test_50_clients_create_no_more_objects_than_the_quota(running: Running, plural: str) -> None:
    of = f"few-{plural.lower()}"
    _tenant(running, of, **{QUOTAS[plural]: QUOTA})
    statuses: Counter[int] = Counter()
    details: set[str] = set()

    def create(client: int) -> None:
        for turn in range(EACH):
            body = _objects(of, client * EACH + turn)[plural]
            answer = running.master.ask("POST", f"/api/v2/{plural}", body)
            statuses[answer.status] += 1
            if answer.status == 403:
                problem = answer.json()
                assert isinstance(problem, dict)
                assert problem["type"] == "urn:contiv:problem:quota-exceeded"
                details.add(problem["detail"])

    on_all_clients(CLIENTS, create)
    listed = running.master.ask("GET", f"/api/v2/{plural}?tenantName={of}&limit=1000").json()
    assert isinstance(listed, dict)
    assert len(listed["items"]) == QUOTA
    assert set(statuses) == {201, 403}
    assert statuses.total() == CLIENTS * EACH
    assert f"it has {QUOTA}, and this would make {QUOTA + 1}" in next(iter(details))
    assert len(details) == 1


def test_50_agents_create_no_more_endpoints_than_the_quota(running: Running) -> None:
    of = "few-endpoints"
    _tenant(running, of, endpointQuota=QUOTA)
    left: set[str] = set()

    def churn(client: int) -> None:
        for turn in range(EACH):
            name = f"c{client}-{turn}"
            config = {"Container": name, "Host": "h1"}
            body = {"TenantName": of, "NetworkName": "n", "ConfigEP": config}
            answer = running.master.ask("POST", "/plugin/createEndpoint", body)
            assert answer.status in {200, 403}, answer.text
            if answer.status == 403:
                continue
            shown = running.master.ask("GET", f"/api/v1/inspect/tenants/{of}/").json()
            assert isinstance(shown, dict)
            assert shown["Oper"]["quotas"]["endpoints"]["used"] <= QUOTA
            if turn % 2:
                gone = {"TenantName": of, "NetworkName": "n", "EndpointID": name}
                assert running.master.ask("POST", "/plugin/deleteEndpoint", gone).status == 200
            else:
                left.add(name)

    on_all_clients(CLIENTS, churn)
    shown = running.master.ask("GET", f"/api/v1/inspect/tenants/{of}/").json()
    assert isinstance(shown, dict)
    assert shown["Oper"]["quotas"]["endpoints"] == {"used": len(left), "allowed": QUOTA}
    assert 0 < len(left) <= QUOTA


def test_what_is_kept_outlives_the_leader(running: Running) -> None:
    _tenant(running, "sticky")

    def create(container: str, keep: str = "shop/db-0") -> str:
        config = {"Container": container, "Host": "h1"}
        body = {"TenantName": "sticky", "NetworkName": "n", "ConfigEP": config, "Keep": keep}
        answer = running.master.ask("POST", "/plugin/createEndpoint", body)
        assert answer.status == 200, answer.text
        made = answer.json()
        assert isinstance(made, dict)
        return str(made["EndpointConfig"]["ipAddress"])

    first = create("c1")
    gone = {"TenantName": "sticky", "NetworkName": "n", "EndpointID": "c1"}
    assert running.master.ask("POST", "/plugin/deleteEndpoint", gone).status == 200
    running.master.kill()
    running.master.start()
    assert create("c2", "shop/other-0") != first
    listed = running.master.ask("GET", "/api/v2/kept-addresses?tenantName=sticky").json()
    assert isinstance(listed, dict)
    assert {(one["name"], one["ipAddress"], one["host"]) for one in listed["items"]} == {
        ("shop/db-0", first, ""),
        ("shop/other-0", "10.1.0.2", "h1"),
    }
    busy = running.master.ask("DELETE", "/api/v2/kept-addresses/sticky:n:shop:other-0")
    assert busy.status == 409
    assert create("c3") == first
    gone = {"TenantName": "sticky", "NetworkName": "n", "EndpointID": "c3"}
    assert running.master.ask("POST", "/plugin/deleteEndpoint", gone).status == 200
    path = "/api/v2/kept-addresses/sticky:n:shop:db-0"
    assert [running.master.ask("DELETE", path).status for _ in range(2)] == [204, 404]
