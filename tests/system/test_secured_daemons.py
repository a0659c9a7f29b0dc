"""The whole system with TLS between its daemons: pods, users, certificates that are replaced."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.addresses import authority
from tests.bed.cluster import ADMIN, AGENT_PORT, MASTER, NETMASTER_PORT, PROGRAMS, Bed, networked
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.integration.netctl.login import logging_in
from tests.system.conftest import unforeseen
from tests.system.rest import ask

pytestmark = [pytest.mark.system]

PASSWORD = "correct horse"


@pytest.fixture(scope="module", params=["v4", "v6"])
def secured(
    request: pytest.FixtureRequest, bed_dirs: Iterator[Path], store_kind: str
) -> Iterator[Bed]:
    """Run a host and a master that reach each other by a family."""
    directory, six = next(bed_dirs), request.param == "v6"
    directory.mkdir()
    with networked(Bed(directory, hosts=1, store=store_kind, secure=True, six=six)) as bed:
        yield bed
        assert unforeseen(bed) == []


def certificate_of(bed: Bed, address: str, port: int) -> str:
    """Return the certificate that a server shows."""
    code = f"import ssl; print(ssl.get_server_certificate(({address!r}, {port})))"
    return bed.fabric.namespace.run([sys.executable, "-c", code], check=False).stdout


def applied(bed: Bed) -> bool:
    """Say whether the agents have reported that they have applied everything."""
    hosts = ask(bed, "GET", "/hosts").json()
    return [host["applied"] for host in hosts] == [True]


def test_pods_come_and_go_and_strangers_are_refused(secured: Bed) -> None:
    (host,) = secured.hosts
    one, two = secured.add_pod(host, "one"), secured.add_pod(host, "two")
    eventually(lambda: one.ping(two.address), "pods reach each other")
    eventually(lambda: applied(secured), "the agent reports to the master")
    secured.delete_pod(two)
    secured.delete_pod(one)
    assert secured.identities is not None
    files = secured.identities.files(ADMIN)
    refused = subprocess.run(
        [
            *(*secured.fabric.namespace.enter, "curl", "-sf", "--cacert", files.ca),
            *(f"https://{authority(host.address, AGENT_PORT)}/inspect/driver",),
        ],
        check=False,
    )
    assert refused.returncode != 0
    for daemon in (secured.netmaster, *secured.agents):
        assert "without TLS" not in daemon.log_text()


def test_a_user_logs_in_with_a_password(secured: Bed, tmp_path: Path) -> None:
    namespace = secured.fabric.namespace
    assert secured.identities is not None
    ca = secured.identities.files(ADMIN).ca
    user = ["set-user", "--name", "rita", "--role", "reader", *secured.store_flags()]

    def run(*command: str, given: str) -> "subprocess.CompletedProcess[str]":
        words = [*namespace.enter, "env", f"HOME={tmp_path}", *command]
        return subprocess.run(words, input=given, check=False, capture_output=True, text=True)

    assert run(str(PROGRAMS / "netmaster"), *user, given=f"{PASSWORD}\n").returncode == 0
    netctl = [str(PROGRAMS / "netctl"), "--netmaster", secured.url, "--tls-ca", ca]
    assert run(*netctl, "net", "ls", given="").returncode == 3
    flags = ("--tls-ca", ca)
    with logging_in(tmp_path, secured.url, *flags, enter=namespace.enter) as login:
        code, _, error = login.give("rita", PASSWORD)
        assert code == 0, error
    assert json.loads((tmp_path / ".netctl/config.json").read_text())["token"]
    assert "default-net" in run(*netctl, "net", "ls", given="").stdout
    denied = run(*netctl, "net", "rm", "default-net", given="")
    assert (denied.returncode, "Access denied!" in denied.stderr) == (3, True)


def test_replaced_certificates_are_in_force_without_a_restart(secured: Bed) -> None:
    (host,), (agent,) = secured.hosts, secured.agents
    identities = secured.identities
    assert identities is not None
    pids = secured.netmaster.pid, agent.pid
    ends = ((secured.fabric.address, NETMASTER_PORT), (host.address, AGENT_PORT))
    before = [certificate_of(secured, *end) for end in ends]
    assert before[0].startswith("-----BEGIN"), before
    identities.issue("master", MASTER, secured.fabric.address)
    identities.issue("agent", host.label, *secured.agent_addresses(host))
    after = [certificate_of(secured, *end) for end in ends]
    assert all(new.startswith("-----BEGIN") for new in after)
    assert before[0] != after[0]
    assert before[1] != after[1]
    pod = secured.add_pod(host, "later")
    eventually(lambda: applied(secured), "the agent reports to the master")
    secured.delete_pod(pod)
    url = f"https://{authority(host.address, AGENT_PORT)}/debug/leaks"
    context = secured.context(MASTER)
    assert http_request(url, namespace=secured.fabric.namespace, context=context)[0] == 200
    assert pids == (secured.netmaster.pid, agent.pid)
