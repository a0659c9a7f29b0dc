"""Clients that are generated from `/openapi.json`, against a real cluster.

`make clients-check` runs this: the generators come from the package indexes of Python and npm, by
locks. Each client is complete (the generator warns of nothing) and does what programs do.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from netmaster.api.v2.examples import EXAMPLES
from tests.bed.cluster import Bed, networked
from tests.bed.netns import http_request

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / ".run" / "clients"


FLAGS = ("--default-non-nullable", "false")
"""A field with a default need not be sent."""


@dataclass(frozen=True, slots=True)
class PingedCluster:
    """A cluster with a pod that pings: its endpoint, and the document that netmaster serves."""

    bed: Bed
    endpoint: str
    document: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PingedCluster]:
    """Run a cluster of one host, whose one pod sends a packet each second."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "bed").mkdir()
    with networked(Bed(folder / "bed", 1)) as bed:
        pod = bed.add_pod(bed.hosts[0], "web")
        document = folder / "openapi.json"
        document.write_bytes(asked(bed, "/openapi.json"))
        (endpoint,) = json.loads(asked(bed, "/api/v2/endpoints"))["items"]
        pinging = pod.namespace.popen(["ping", "-q", "-n", "10.20.0.1"])
        try:
            yield PingedCluster(bed, endpoint["key"], document)
        finally:
            pinging.kill()
            pinging.wait()


def asked(bed: Bed, path: str) -> bytes:
    """Return what netmaster answers."""
    status, body = http_request(f"{bed.url}{path}", namespace=bed.fabric.namespace)
    assert status == 200, body
    return body


def run(words: Sequence[str | Path], folder: Path) -> str:
    """Run a program, which finds the others beside it; return what it says. Fails with it."""
    found = f"{Path(words[0]).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={**os.environ, "PATH": found},
        check=False,
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_openapi_python_client(cluster: PingedCluster, tmp_path: Path) -> None:
    python = TOOLS / "python" / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", "--clear", TOOLS / "python"], HERE)
    lock = HERE / "requirements.lock"
    run([python, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock], HERE)
    generator = python.with_name("openapi-python-client")
    made = tmp_path / "made"
    words: list[str | Path] = [
        "--path",
        cluster.document,
        "--output-path",
        made,
        "--config",
        HERE / "config.yaml",
    ]
    said = run([generator, "generate", *words, "--fail-on-warning"], tmp_path)
    assert "WARNING" not in said
    examples = json.dumps(EXAMPLES)
    uses = [python, HERE / "uses.py", cluster.bed.url, cluster.endpoint, examples]
    cluster.bed.fabric.namespace.run([*map(str, uses)], env={"PYTHONPATH": str(made)})


def test_openapi_typescript(cluster: PingedCluster, tmp_path: Path) -> None:
    for name in ("package.json", "package-lock.json", "tsconfig.json", "uses.ts"):
        shutil.copy(HERE / "typescript" / name, tmp_path)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], tmp_path)
    programs = tmp_path / "node_modules" / ".bin"
    run([programs / "openapi-typescript", cluster.document, "-o", "schema.d.ts", *FLAGS], tmp_path)
    run([programs / "tsc"], tmp_path)
    uses = ["node", tmp_path / "uses.js", cluster.bed.url, cluster.endpoint]
    cluster.bed.fabric.namespace.run([*map(str, uses)])
