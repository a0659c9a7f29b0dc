"""`--what-if` and `events` by the real programs: a dry run, then the change and its record."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bed.master import Master
from tests.bed.store import Store

pytestmark = pytest.mark.store

PROGRAM = Path(sys.executable).with_name("netctl")
Netctl = Callable[..., str]
BGP = ("--router-ip=50.1.1.1/24", "--as=65000", "--neighbor-as=65001", "--neighbor=50.1.1.2")


@pytest.fixture(scope="module")
def master(bed_dirs: Iterator[Path], store_session: Store) -> Iterator[Master]:
    directory = next(bed_dirs)
    directory.mkdir()
    master = Master(directory, store_session)
    try:
        master.start()
        yield master
    finally:
        master.kill()


@pytest.fixture(scope="module")
def netctl(master: Master) -> Netctl:
    def run(*words: str, fails: bool = False) -> str:
        command = [str(PROGRAM), "--netmaster", master.url, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert bool(done.returncode) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def test_nothing_is_changed_and_who_could_talk_to_whom_is_told(
    master: Master, netctl: Netctl
) -> None:
    netctl("net", "create", "--subnet=10.1.0.0/24", "n1")
    netctl("policy", "create", "p1")
    netctl("group", "create", "n1", "clients")
    netctl("group", "create", "-p", "p1", "n1", "web")
    for name, group in (("c1", "clients"), ("c2", "clients"), ("s1", "web")):
        body = {
            "TenantName": "default",
            "NetworkName": "n1",
            "ServiceName": group,
            "EndpointID": name,
            "ConfigEP": {"Container": name, "Host": "h1"},
        }
        body["ConfigEP"] = {"Container": name, "Host": "h1", "ServiceName": group}
        assert master.ask("POST", "/plugin/createEndpoint", body).status == 200
    rule = ("policy", "rule-add", "-d", "in", "--action=deny", "--protocol=tcp", "--port=80")
    told = netctl(*rule, "--what-if", "p1", "1")
    assert "put /contiv.io/obj/modeldb/rule/default:p1:1" in told
    said = "tenant default: clients (2 endpoints) to web (1), tcp/80: denied, by rule default:p1:1"
    assert said in told
    assert "deny" not in netctl("policy", "rule-ls", "p1")
    netctl(*rule, "p1", "1")
    assert "create rules default:p1:1" in netctl("events", "-k", "rules")
    told = netctl("policy", "rule-rm", "--what-if", "p1", "1")
    assert "tcp/80: allowed, without rule default:p1:1" in told


def test_a_refusal_is_the_changes(netctl: Netctl) -> None:
    words = ("group", "create", "no-such-network", "g1")
    refused = (netctl(*words, *more, fails=True) for more in (("--what-if",), ()))
    assert len({text.partition("level=")[2] for text in refused}) == 1


def test_every_object_may_be_there_if_asked_for(netctl: Netctl) -> None:
    there = (
        ("tenant", "create", "red"),
        ("net", "create", "-t", "red", "--subnet=10.3.0.0/24", "n3"),
        ("policy", "create", "-t", "red", "p3"),
        ("policy", "rule-add", "-t", "red", "--action=deny", "-l", "tcp", "-P", "80", "p3", "1"),
        ("netprofile", "create", "-t", "red", "-b", "10mbps", "-d", "8", "-s", "2", "q3"),
        ("external-contracts", "create", "-t", "red", "-p", "-a", "c", "e3"),
        ("group", "create", "-t", "red", "-p", "p3", "-n", "q3", "n3", "g3"),
        ("app-profile", "create", "-t", "red", "-g", "g3", "a3"),
        ("service", "create", "-t", "red", "-s", "n3", "-l", "a=b", "-p", "80:80:TCP", "s3"),
        ("bgp", "create", *BGP, "h3"),
    )
    for words in there:
        assert "exists" not in netctl(*words, "--if-absent")
    for words in there:
        assert "exists already with these settings" in netctl(*words, "--if-absent")
    other = ("net", "create", "-t", "red", "--subnet=10.9.0.0/24", "--if-absent", "n3")
    told = 'red:n3 exists with other settings: subnet is "10.3.0.0/24", not "10.9.0.0/24"'
    assert told in netctl(*other, fails=True)
    assert "Creating" not in netctl(*other[:-1], "--what-if", "n4")
    assert netctl("net", "ls", "-t", "red", "-q") == "n3\n"


def test_who_is_not_there_is_named(netctl: Netctl) -> None:
    assert "no endpoint, service or host is called nosuch" in netctl(
        "trace", "nosuch", "nosuch", fails=True
    )


def test_a_netmaster_that_is_gone_is_passed_over(master: Master, netctl: Netctl) -> None:
    several = f"http://127.0.0.1:1,{master.url}"
    told = netctl("--netmaster", several, "tenant", "inspect", "default", "-o", "yaml")
    assert told.startswith("Config:")


def test_events_tell_the_fields(netctl: Netctl) -> None:
    netctl("tenant", "create", "blue")
    netctl("net", "create", "-t", "blue", "--subnet=10.2.0.0/24", "n2")
    told = netctl("events", "-t", "blue", "--fields")
    assert "create networks blue:n2" in told
    assert 'subnet: - -> "10.2.0.0/24"' in told
