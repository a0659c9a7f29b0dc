"""A master on an ACI fabric, with a stand-in for the gateway."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bed.aci_gateway import REFUSING, WELL, StandIn
from tests.bed.master import MODES, Answer, Master
from tests.bed.store import Store
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store

PROFILE = {"tenantName": "default", "appProfileName": "a", "endpointGroups": ["web", "db"]}
PATH = "/api/v1/appProfiles/default:a/"


class Fabric:
    """A master, its store and its gateway."""

    def __init__(self, directory: Path, store: Store, gateway: StandIn) -> None:
        self.gateway = gateway
        flags = (*MODES, "--infra", "aci", "--aci-gateway", gateway.url)
        self.master = Master(directory, store, flags=flags)

    def post(self, path: str, **body: object) -> Answer:
        return self.master.ask("POST", f"/api/v1/{path}/", body)

    def made(self, path: str, **body: object) -> None:
        answer = self.post(path, **body)
        assert answer.status == 200, answer.text

    def build(self) -> None:
        """Make a network, a policy and two groups."""
        of = {"tenantName": "default"}
        self.made(
            "networks/default:n1",
            **of,
            networkName="n1",
            encap="vlan",
            subnet="10.1.1.0/24",
            gateway="10.1.1.254",
        )
        self.made("policys/default:p", **of, policyName="p")
        self.made("endpointGroups/default:web", **of, groupName="web", networkName="n1")
        self.made(
            "endpointGroups/default:db", **of, groupName="db", networkName="n1", policies=["p"]
        )

    def rule(self, number: str, **more: object) -> Answer:
        of: dict[str, Any] = {"tenantName": "default", "policyName": "p", "ruleId": number}
        meant = {"direction": "in", "action": "allow", "protocol": "tcp", "port": 80}
        return self.post(f"rules/default:p:{number}", **(of | meant | more))


@pytest.fixture
def fabric(bed_dir: Path, store: Store) -> Iterator[Fabric]:
    with StandIn() as gateway:
        it = Fabric(bed_dir, store, gateway)
        try:
            it.master.start()
            it.build()
            yield it
            assert "Traceback" not in it.master.log_text()
        finally:
            it.master.kill()


def test_the_gateway_follows_what_is_done(fabric: Fabric) -> None:
    gateway = fabric.gateway
    fabric.made("appProfiles/default:a", **PROFILE)
    ((path, told),) = gateway.calls
    assert path == "/createAppProf"
    assert told == {
        "aci-gw-api-version": "v1.2",
        "tenant": "default",
        "app-prof": "a",
        "epgs": [
            {"name": "web", "nw-name": "n1", "gw-cidr": "10.1.1.254/24", "vlan-tag": "2"},
            {"name": "db", "nw-name": "n1", "gw-cidr": "10.1.1.254/24", "vlan-tag": "3"},
        ],
    }
    assert fabric.rule("1", fromEndpointGroup="web").status == 200
    assert gateway.paths() == ["/createAppProf", "/deleteAppProf", "/createAppProf"]
    contract = {"name": "pFrmweb", "filter-info": [{"protocol": "tcp", "servport": "80"}]}
    assert gateway.calls[-1][1]["contract-defs"] == [contract]
    assert fabric.master.ask("DELETE", PATH).json() == "default:a"
    assert gateway.calls[-1] == ("/deleteAppProf", {"tenant": "default", "app-prof": "a"})
    assert gateway.held == set()


def test_what_the_gateway_refuses_does_not_come_about(fabric: Fabric) -> None:
    fabric.gateway.answer = REFUSING
    answer = fabric.post("appProfiles/default:a", **PROFILE)
    assert (answer.status, answer.text) == (
        500,
        "Validation failed. Error: failed - no such domain",
    )
    assert fabric.master.ask("GET", PATH).text == "appProfile not found"
    shown = fabric.master.ask("GET", "/api/v1/endpointGroups/default:web/").json()
    assert isinstance(shown, dict)
    assert shown["links"]["AppProfile"] == {}
    assert fabric.master.ask("DELETE", "/api/v1/endpointGroups/default:web/").status == 200
    fabric.gateway.answer = WELL
    fabric.made("appProfiles/default:a", **(PROFILE | {"endpointGroups": ["db"]}))


def test_a_rule_that_the_fabric_cannot_express_is_refused(fabric: Fabric) -> None:
    fabric.made("appProfiles/default:a", **PROFILE)
    answer = fabric.rule("1", fromIpAddress="10.1.1.1")
    assert answer.text == (
        "rule default:p:1 is invalid, only From/ToEndpointGroup may be specified in ACI mode"
    )
    assert fabric.master.ask("GET", "/api/v1/rules/default:p:1/").status == 500


def test_a_master_killed_while_the_gateway_works_leaves_nothing_there(fabric: Fabric) -> None:
    gateway = fabric.gateway
    gateway.gate.clear()
    asking = threading.Thread(target=_ask_in_vain, args=(fabric,))
    asking.start()
    eventually(lambda: gateway.held == {("default", "a")}, "the gateway has the profile")
    fabric.master.kill()
    asking.join()
    gateway.gate.set()
    fabric.master.start()
    eventually(lambda: gateway.held == set(), "the gateway has forgotten the profile")
    assert fabric.master.ask("GET", PATH).text == "appProfile not found"
    fabric.made("appProfiles/default:a", **PROFILE)
    assert gateway.held == {("default", "a")}


def _ask_in_vain(fabric: Fabric) -> None:
    with pytest.raises(OSError, match=r".*"):
        fabric.post("appProfiles/default:a", **PROFILE)
