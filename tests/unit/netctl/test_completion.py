"""The candidates for the next word of a command line."""

import threading

import pytest

from core.errors import MasterUnavailable
from netctl.completion import NAMES_TIMEOUT, candidates, respond
from netctl.main import cli
from tests.unit.netctl.master import Netctl


@pytest.fixture
def stocked(netctl: Netctl) -> Netctl:
    def named(field: str, name: str, tenant: str = "default", **more: str) -> dict[str, str]:
        return {"key": f"{tenant}:{name}", field: name, "tenantName": tenant, **more}

    add = netctl.master.add
    add("tenants", {"key": "blue", "tenantName": "blue"})
    add("networks", named("networkName", "n2"), named("networkName", "n1"))
    add("networks", named("networkName", "b1", "blue"))
    add("endpointGroups", named("groupName", "g1"))
    add("policys", named("policyName", "p1"))
    add("rules", named("ruleId", "7", policyName="p1"), named("ruleId", "8", policyName="p2"))
    add("netprofiles", named("profileName", "gold"), named("profileName", "two words"))
    add("appProfiles", named("appProfileName", "a1"))
    add("extContractsGroups", named("contractsGroupName", "e1"))
    add("serviceLBs", named("serviceName", "s1"))
    add("Bgps", {"key": "h1", "hostname": "h1"})
    netctl.master.host_states = lambda _: [{"label": "h2"}, {"label": "h1"}]
    netctl.master.found = [
        {
            "key": "n1.default-c1",
            "containerName": "web-1",
            "endpointID": "c1",
            "labels": {"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web-1"},
        },
        {"key": "n1.default-c2", "containerName": "", "endpointID": "c2"},
    ]
    return netctl


def offered(line: str, *, timeout: float = NAMES_TIMEOUT) -> list[str]:
    """Return what is offered for the last word of a line."""
    *words, incomplete = line.split(" ")
    found = candidates(cli, words, incomplete, names_timeout=timeout)
    return [item.value for item in found]


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ne", ["netprofile", "network"]),
        ("network i", ["inspect"]),
        ("net l", ["ls"]),
        ("help poli", ["policy"]),
        ("help net cr", ["create"]),
        ("policy rule-", ["rule-add", "rule-ls", "rule-rm"]),
        ("--insecure --netmaster http://a:1 ten", ["tenant"]),
        ("-insecure=false ten", ["tenant"]),
        ("bogus ", []),
        ("net bogus ", []),
    ],
)
def test_commands(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--n", ["--netmaster"]),
        ("net create n1 --subnetv", ["--subnetv6"]),
        ("net ls -q --q", []),
        ("net create n1 -s", ["-s", "-s6"]),
        ("group create --policy p1 --pol", ["--policy"]),
        ("net ls --bogus --q", ["--quiet"]),
        ("net rm -- --t", []),
    ],
)
def test_flags(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tenant rm ", ["blue", "default"]),
        ("net rm ", ["n1", "n2"]),
        ("net rm n2", ["n2"]),
        ("net rm -t blue ", ["b1"]),
        ("net rm --tenant=blue ", ["b1"]),
        ("net rm n1 ", []),
        ("net create ", []),
        ("group create ", ["n1", "n2"]),
        ("group create n1 ", []),
        ("group inspect ", ["g1"]),
        ("host inspect ", ["h1", "h2"]),
        ("host inspect h2", ["h2"]),
        ("host drain --undo ", ["h1", "h2"]),
        ("host rm -f h1", ["h1"]),
        ("policy rule-rm ", ["p1"]),
        ("policy rule-rm p1 ", ["7"]),
        ("policy rule-add p1 ", []),
        ("netprofile rm ", ["gold"]),
        ("app-profile group-ls ", ["a1"]),
        ("external-contracts rm ", ["e1"]),
        ("service rm ", ["s1"]),
        ("bgp inspect ", ["h1"]),
        ("bgp create ", []),
        ("global set ", []),
    ],
)
def test_names_of_objects(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("net ls -t b", ["blue"]),
        ("net ls -tenant b", ["blue"]),
        ("net ls --tenant=b", ["--tenant=blue"]),
        ("group create n1 g2 -p ", ["p1"]),
        ("policy rule-add -d ", ["in", "out"]),
        ("policy rule-add --action=d", ["--action=deny"]),
        ("net create -e vx", ["vxlan"]),
        ("net create -s ", []),
        ("net ls -q ", []),
        ("completion z", ["zsh"]),
        ("--netmaster ", []),
        ("trace ", ["shop/web-1"]),
        ("trace web", ["web-1"]),
        ("trace a -t blue sh", ["shop/web-1"]),
        ("endpoint inspect ", ["c1", "c2"]),
        ("endpoint ls --pod sh", ["shop/web-1"]),
        ("capture n1", ["n1.default-c1", "n1.default-c2"]),
    ],
)
def test_values_of_flags(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


def test_a_netmaster_out_of_reach_leaves_the_tree(
    stocked: Netctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_plural: str) -> None:
        raise MasterUnavailable("connection refused")

    monkeypatch.setattr(stocked.master, "list_all", gone)
    assert offered("net rm ") == []
    assert offered("net r") == ["rm"]


def test_a_silent_netmaster_is_given_up(stocked: Netctl, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def silent(_plural: str) -> list[object]:
        release.wait(10)
        return []

    monkeypatch.setattr(stocked.master, "list_all", silent)
    assert offered("net rm ", timeout=0.01) == []
    release.set()


@pytest.mark.parametrize("wanted", ["", "bash", "tcsh_complete", "bash_bogus", "bash_complete"])
def test_what_no_shell_asks_is_refused(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMP_WORDS", raising=False)
    assert respond(cli, wanted) == 1


def test_the_variable_goes_before_the_words(
    netctl: Netctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_NETCTL_COMPLETE", "zsh_source")
    done = netctl("tenant", "create", "blue")
    assert (done.code, done.out.splitlines()[0]) == (0, "#compdef netctl")
    assert netctl.master.written == []
