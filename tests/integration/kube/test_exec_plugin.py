"""Programs that issue credentials are run when they are needed, and no more often."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.errors import OrchestratorUnavailable
from netplugin.kube.api import KubeApi, KubeRefused
from netplugin.kube.api_access import KubeAccess
from netplugin.kube.exec_plugin import ExecPlugin
from netplugin.kube.resources import SERVICES
from tests.bed.kubernetes import ApiServer, service
from tests.bed.waiting import eventually, eventually_async

V1 = "client.authentication.k8s.io/v1"


@dataclass
class Program:
    """A program in a folder of its own, which counts its runs and prints a file."""

    directory: Path

    def __post_init__(self) -> None:
        self.write('echo run >> runs; printf %s "$KUBERNETES_EXEC_INFO" > told; cat answer')

    def write(self, body: str) -> None:
        file = self.directory / "issue"
        file.write_text(f'#!/bin/sh\ncd "{self.directory}"\n{body}\n')
        file.chmod(0o755)

    def prints(self, token: str, **status: str) -> None:
        said = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": token} | status}
        (self.directory / "answer").write_text(json.dumps(said))

    @property
    def runs(self) -> int:
        return len((self.directory / "runs").read_text().splitlines())

    def plugin(self, limit: float = 30.0, pause: float = 5.0) -> ExecPlugin:
        return ExecPlugin(
            version=V1,
            command=str(self.directory / "issue"),
            hint="install it",
            cluster={"server": "https://c"},
            limit=limit,
            pause=pause,
        )


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.put("services", "shop", "web", **service("10.96.0.1"))
        yield server


def api(server: ApiServer, plugin: ExecPlugin) -> KubeApi:
    return KubeApi(KubeAccess(servers=(server.url,), issuer=plugin))


async def test_one_run_serves_all_requests_until_a_server_refuses(
    server: ApiServer, program: Program
) -> None:
    program.prints("first")
    server.token = "first"
    asking = api(server, program.plugin(pause=0.0))
    for _ in range(3):
        assert await asking.get(SERVICES, "shop", "web")
    assert program.runs == 1
    assert json.loads((program.directory / "told").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://c"}},
    }
    program.prints("second")
    server.token = "second"
    assert await asking.get(SERVICES, "shop", "web"), "the request is repeated"
    assert program.runs == 2


async def test_credentials_are_replaced_before_their_end(
    server: ApiServer, program: Program
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=5)
    program.prints("t", expirationTimestamp=soon.isoformat())
    asking = api(server, program.plugin(pause=0.0))

    async def run_again() -> bool:
        assert await asking.get(SERVICES, "shop", "web")
        return program.runs > 1

    await eventually_async(run_again, "the program is run again")


async def test_a_program_whose_credentials_are_refused_is_not_run_for_each_request(
    server: ApiServer, program: Program
) -> None:
    program.prints("wrong")
    server.token = "right"
    asking = api(server, program.plugin())
    for _ in range(3):
        with pytest.raises(KubeRefused, match=r"does not accept what the program .*/issue issues"):
            await asking.get(SERVICES, "shop", "web")
    assert program.runs == 1


async def test_a_program_that_fails_is_named_and_not_run_for_each_request(
    server: ApiServer, program: Program
) -> None:
    program.write("echo run >> runs; echo 'no such\tprofile' >&2; exit 3")
    asking = api(server, program.plugin())
    for _ in range(3):
        with pytest.raises(
            OrchestratorUnavailable,
            match=r"the program .*/issue: ended with status 3: no such profile: install it",
        ):
            await asking.get(SERVICES, "shop", "web")
    assert program.runs == 1
    assert not server.asked


async def test_a_program_that_is_not_there_is_named(server: ApiServer, program: Program) -> None:
    (program.directory / "issue").chmod(0o644)
    with pytest.raises(OrchestratorUnavailable, match="not there, or is not executable: install"):
        await api(server, program.plugin()).get(SERVICES, "shop", "web")


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or waits for somebody to notice."""
    try:
        return "(sleep) Z" in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


async def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    server: ApiServer, program: Program
) -> None:
    program.write("sleep 1000 & echo $! > child; wait")
    with pytest.raises(OrchestratorUnavailable, match="no answer within 1 s"):
        await api(server, program.plugin(limit=1.0)).get(SERVICES, "shop", "web")
    child = int((program.directory / "child").read_text())

    eventually(lambda: has_ended(child), "its child has ended")


async def test_a_program_that_prints_without_end_is_ended(
    server: ApiServer, program: Program
) -> None:
    program.write("exec cat /dev/zero")
    with pytest.raises(OrchestratorUnavailable, match="no answer within 1 s"):
        await api(server, program.plugin(limit=1.0)).get(SERVICES, "shop", "web")
