"""One master: many clients at once, transport, what it says of itself, restarts."""

import http.client
import json
from importlib.metadata import version

import pytest

from tests.bed.waiting import WITHIN
from tests.integration.netmaster.conftest import Running
from tests.integration.netmaster.many_clients import on_all_clients

pytestmark = pytest.mark.store

CLIENTS = 16


def tenant(running: Running, name: str) -> str:
    answer = running.master.ask("POST", f"/api/v1/tenants/{name}/", {"tenantName": name})
    assert answer.status == 200
    return name


def network(name: str, of: str, subnet: str) -> dict[str, str]:
    return {"tenantName": of, "networkName": name, "encap": "vxlan", "subnet": subnet}


def test_400_networks_created_by_16_clients_are_all_there(running: Running) -> None:
    of = tenant(running, "many")
    names = [f"n{number}" for number in range(400)]

    def create(client: int) -> None:
        for number in range(client, 400, CLIENTS):
            body = network(names[number], of, f"10.{number // 2}.{number % 2}.0/24")
            path = f"/api/v1/networks/{of}:{names[number]}/"
            assert running.master.ask("POST", path, body).status == 200

    on_all_clients(CLIENTS, create)
    listed = running.master.ask("GET", "/api/v1/networks/").json()
    assert isinstance(listed, list)
    assert {item["networkName"] for item in listed if item["tenantName"] == of} == set(names)
    links = running.master.ask("GET", f"/api/v1/tenants/{of}/").json()
    assert isinstance(links, dict)
    assert set(links["link-sets"]["Networks"]) == {f"{of}:{name}" for name in names}
    inspected = [
        running.master.ask("GET", f"/api/v1/inspect/networks/{of}:{name}/").json() for name in names
    ]
    assert len({item["Oper"]["externalPktTag"] for item in inspected}) == 400  # type: ignore[index]


def test_400_tenants_and_their_groups_created_by_16_clients_are_all_there(
    running: Running,
) -> None:
    names = [f"c{number}" for number in range(400)]

    def create(client: int) -> None:
        for name in names[client::CLIENTS]:
            of = tenant(running, name)
            for path, body in (
                (f"networks/{of}:net", network("net", of, "10.1.0.0/16")),
                (
                    f"endpointGroups/{of}:web",
                    {"tenantName": of, "networkName": "net", "groupName": "web"},
                ),
            ):
                assert running.master.ask("POST", f"/api/v1/{path}/", body).status == 200

    on_all_clients(CLIENTS, create)
    for kind, key in (("tenants", "{}"), ("networks", "{}:net"), ("endpointGroups", "{}:web")):
        listed = running.master.ask("GET", f"/api/v1/{kind}/").json()
        assert isinstance(listed, list)
        assert {key.format(name) for name in names} <= {item["key"] for item in listed}
    opers = [
        running.master.ask("GET", f"/api/v1/inspect/tenants/{name}/").json()["Oper"]  # type: ignore[index]
        for name in names
    ]
    assert {(oper["totalNetworks"], oper["totalEPGs"]) for oper in opers} == {(1, 1)}


def test_one_of_16_overlapping_networks_is_accepted(running: Running) -> None:
    of = tenant(running, "overlap")
    statuses: list[int] = []

    def create(client: int) -> None:
        body = network(f"n{client}", of, "10.1.0.0/16")
        path = f"/api/v1/networks/{of}:n{client}/"
        statuses.append(running.master.ask("POST", path, body).status)

    on_all_clients(CLIENTS, create)
    assert sorted(statuses) == [200] + [500] * (CLIENTS - 1)


def test_every_endpoint_gets_an_address_of_its_own(running: Running) -> None:
    of = tenant(running, "pods")
    path = f"/api/v1/networks/{of}:n/"
    assert running.master.ask("POST", path, network("n", of, "10.1.0.0/24")).status == 200
    addresses: list[str] = []
    refused: list[str] = []

    def create(client: int) -> None:
        for number in range(client, 256, CLIENTS):
            body = {
                "TenantName": of,
                "NetworkName": "n",
                "ConfigEP": {"Container": f"c{number}", "Host": "h1"},
            }
            answer = running.master.ask("POST", "/plugin/createEndpoint", body)
            if answer.status == 200:
                found = answer.json()
                assert isinstance(found, dict)
                addresses.append(found["EndpointConfig"]["ipAddress"])
            else:
                refused.append(answer.text)

    on_all_clients(CLIENTS, create)
    assert set(addresses) == {f"10.1.0.{last}" for last in range(1, 255)}
    assert len(addresses) == 254
    assert refused == ["auto allocation failed - address exhaustion in subnet 10.1.0.0/24"] * 2


def test_a_connection_is_kept_for_more_requests(running: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.master.port, timeout=WITHIN)
    for path, status in (("/version", 200), ("/nope", 404), ("/api/v1/tenants/nope/", 500)):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert (answer.status, answer.will_close) == (status, False)
    connection.close()


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/api/v1/globals//", "/api/v1/globals/"),
        ("/api/v1/x/../globals/?a=b", "/api/v1/globals/?a=b"),
        ("/api/v1/tenants//a%20b/", "/api/v1/tenants/a%20b/"),
        ("/api/v1/tenants/%2e%2e/globals/", "/api/v1/globals/"),
    ],
)
def test_an_unclean_path_is_redirected(path: str, location: str, running: Running) -> None:
    answer = running.master.ask("GET", path)
    assert (answer.status, answer.headers["Location"], answer.body) == (301, location, b"")


def test_info_names_the_leader_and_the_nodes(running: Running) -> None:
    answer = running.master.ask("GET", "/info")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.json() == {
        "current-state": "leader",
        "leader-ip": running.master.address,
        "local-ip": "127.0.0.1",
        "netmaster-nodes": ["127.0.0.1"],
        "netplugin-nodes": [],
    }
    assert list(json.loads(answer.body)) == sorted(json.loads(answer.body))


def test_version_is_the_packages(running: Running) -> None:
    answer = running.master.ask("GET", "/version")
    assert answer.json() == {"GitCommit": "", "Version": version("contiv"), "BuildTime": ""}


def test_an_endpoint_is_found_by_its_names(running: Running) -> None:
    of = tenant(running, "named")
    path = f"/api/v1/networks/{of}:n/"
    assert running.master.ask("POST", path, network("n", of, "10.1.0.0/24")).status == 200
    for container, name in (("feed1", "web"), ("feed12", "web-2")):
        body = {
            "TenantName": of,
            "NetworkName": "n",
            "EPCommonName": name,
            "ConfigEP": {"Container": container, "Host": "h1"},
        }
        assert running.master.ask("POST", "/plugin/createEndpoint", body).status == 200

    def found(text: str) -> object:
        answer = running.master.ask("GET", f"/api/v1/inspect/endpoints/{text}/").json()
        assert isinstance(answer, dict)
        return answer["Oper"]["endpointID"]

    assert [found(text) for text in ("feed1", "feed12", "web", "web-2", "eed12")] == [
        "feed1",
        "feed12",
        "feed1",
        "feed12",
        "feed12",
    ]
