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


def test_events_tell_the_fields(netctl: Netctl) -> None:
    netctl("tenant", "create", "blue")
    netctl("net", "create", "-t", "blue", "--subnet=10.2.0.0/24", "n2")
    told = netctl("events", "-t", "blue", "--fields")
    assert "create networks blue:n2" in told
    assert 'subnet: - -> "10.2.0.0/24"' in told
