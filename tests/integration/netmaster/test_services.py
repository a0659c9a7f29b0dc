"""Services, BGP and clean-ups on a real store, with an agent that is played by the test."""

import http.server
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core import keys
from objdb.api import Change, Put
from state import codec
from state.records import ServiceInstance
from tests.bed.master import Master
from tests.bed.store import Store, client
from tests.bed.waiting import eventually
from tests.integration.netmaster.conftest import Running

pytestmark = pytest.mark.store

CLIENTS = 16
BGP = {"Peers": [{"State": {"SessionState": "established", "AdminState": "up"}}], "Dsts": ["r"]}


@dataclass
class Agent:
    """An agent's REST routes; `asked` has the requests, `open` lets them be answered."""

    label: str
    port: int = 0
    asked: list[str] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        self.asked.append(f"{request.command} {request.path}")
        self.open.wait(30)
        body = json.dumps(BGP if request.path == "/inspect/bgp" else None).encode()
        with suppress(ConnectionError):  # who asked may be killed by now
            request.send_response(200)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)


async def register(agent: Agent, store: Store) -> None:
    """Put an agent into the service registry."""
    instance = ServiceInstance(
        service=keys.SERVICE_AGENT_REST,
        address="127.0.0.1",
        port=agent.port,
        hostname=agent.label,
    )
    key = keys.service(instance.service, instance.address, instance.port)
    backend = client(store)
    try:
        await backend.commit([Change((), (Put(key, codec.encode(instance)),))])
    finally:
        await backend.close()


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    """Serve an agent of a host of the test's own."""
    played = Agent(f"host-{request.node.originalname.replace('_', '-')[:40]}")
    played.open.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            played.answer(self)

        def do_DELETE(self) -> None:
            played.answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    played.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield played
    finally:
        played.open.set()
        server.shutdown()
        thread.join(10)
        server.server_close()


def network(master: Master, name: str, subnet: str) -> None:
    body = {"tenantName": "default", "networkName": name, "encap": "vxlan", "subnet": subnet}
    assert master.ask("POST", f"/api/v1/networks/default:{name}/", body).status == 200


def endpoint(master: Master, network_name: str, container: str, host: str) -> None:
    config = {"Container": container, "Host": host}
    body = {"TenantName": "default", "NetworkName": network_name, "ConfigEP": config}
    assert master.ask("POST", "/plugin/createEndpoint", body).status == 200


def left(master: Master, network_name: str) -> int:
    """Return how many endpoints a network has."""
    shown = master.ask("GET", f"/api/v1/inspect/networks/default:{network_name}/").json()
    assert isinstance(shown, dict)
    return int(shown["Oper"].get("numEndpoints", 0))


def test_services_created_by_16_clients_have_addresses_of_their_own(running: Running) -> None:
    master = running.master
    network(master, "svc", "10.81.1.0/24")

    def create(number: int) -> int:
        body = {
            "tenantName": "default",
            "serviceName": f"svc{number}",
            "networkName": "svc",
            "selectors": ["app=web"],
            "ports": ["80:8080:TCP"],
            "ipAddress": "10.81.1.200" if number % 2 else "",
        }
        path = f"/api/v1/serviceLBs/default:svc{number}/"
        return master.ask("POST", path, body).status

    with ThreadPoolExecutor(CLIENTS) as clients:
        statuses = list(clients.map(create, range(CLIENTS)))
    assert statuses.count(200) == CLIENTS // 2 + 1  # one of those that want the same address
    found = master.ask("GET", "/services").json()
    assert isinstance(found, list)
    addresses = [one["ipaddress"] for one in found if one["subnet"] == "svc"]
    assert len(set(addresses)) == len(addresses) == CLIENTS // 2 + 1
    assert "10.81.1.200" in addresses


async def test_the_state_of_bgp_is_asked_for(running: Running, agent: Agent) -> None:
    await register(agent, running.store)
    body = {"hostname": agent.label, "routerip": "50.1.1.1/24", "as": "65000"}
    assert running.master.ask("POST", f"/api/v1/Bgps/{agent.label}/", body).status == 200
    shown = running.master.ask("GET", f"/api/v1/inspect/Bgps/{agent.label}/").json()
    assert isinstance(shown, dict)
    assert shown["Oper"] == {
        "adminStatus": "up",
        "neighborStatus": "established",
        "numRoutes": 1,
        "routes": ["r"],
    }
    missing = running.master.ask("GET", "/api/v1/inspect/Bgps/nobody/")
    assert (missing.status, missing.text) == (500, "Bgp not found")


async def test_a_clean_up_tells_the_agent(running: Running, agent: Agent) -> None:
    await register(agent, running.store)
    network(running.master, "clean", "10.81.2.0/24")
    for container in ("a", "b/c"):
        endpoint(running.master, "clean", container, agent.label)
    answer = running.master.ask("DELETE", "/debug/epcleanup/tenant/default/net/clean")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.body == b"Received request to cleanup Network with ID: clean"
    assert sorted(agent.asked) == [
        "DELETE /debug/reclaimEndpoint/clean.default-a",
        "DELETE /debug/reclaimEndpoint/clean.default-b%2Fc",
    ]
    assert left(running.master, "clean") == 0


def test_endpoints_are_shown_for_the_switches(running: Running) -> None:
    network(running.master, "shownep", "10.81.3.0/24")
    endpoint(running.master, "shownep", "c1", "h1")
    page = running.master.ask("GET", "/debug/ofnet").json()
    assert isinstance(page, dict)
    entry = page["EndpointDb"]["10.81.3.1:default"]
    assert (entry["Vrf"], entry["MacAddrStr"]) == ("default", "02:02:0a:51:03:01")


async def test_a_clean_up_of_a_killed_leader_is_finished_by_the_next(
    bed_dir: Path, store: Store, agent: Agent
) -> None:
    await register(agent, store)
    first = Master(bed_dir, store, name="first")
    second = Master(bed_dir, store, name="second")
    try:
        first.start()
        network(first, "n1", "10.1.1.0/24")
        for number in range(40):
            endpoint(first, "n1", f"c{number}", agent.label)
        agent.open.clear()
        with ThreadPoolExecutor(1) as client:
            path = "/debug/epcleanup/tenant/default/net/n1"
            asked = client.submit(first.ask, "DELETE", path)
            eventually(lambda: bool(agent.asked), "the agent is told")
            first.kill()
            assert asked.exception(30) is not None
        agent.open.set()
        second.start()
        eventually(lambda: left(second, "n1") == 0, "the clean-up is finished")
        assert second.ask("DELETE", "/api/v1/networks/default:n1/").status == 200
    finally:
        first.kill()
        second.kill()
