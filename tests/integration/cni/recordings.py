"""What tests of recordings share."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "cni"


@dataclass(frozen=True)
class Recording:
    """One call of the original's plugin."""

    env: dict[str, str]
    stdin: str
    request: dict[str, str] | None
    reply: list[str] | None
    exit: int
    stdout: str


def recording(case: str) -> Recording:
    text = (GOLDEN / "contivk8s" / f"{case}.txt").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    by_word = {name.split()[0]: value.strip("\n") for name, value in parts.items()}
    reply = by_word["reply"]
    request = by_word["request(s)"].rpartition("\n\n")[2]
    return Recording(
        env=dict(line.split("=", 1) for line in by_word["environment"].splitlines()),
        stdin=by_word["stdin"],
        request=json.loads(request) if request.startswith("{") else None,
        reply=json.loads(reply) if reply.startswith("[") else None,
        exit=int(by_word["exit"]),
        stdout=by_word["stdout"],
    )


CASES = sorted(path.stem for path in (GOLDEN / "contivk8s").glob("*.txt"))


def runtime_calls() -> list[Any]:
    return [
        pytest.param(json.loads(line), id=f"{path.stem}-{number}")
        for path in sorted((GOLDEN / "runtimes").glob("*.jsonl"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    ]
