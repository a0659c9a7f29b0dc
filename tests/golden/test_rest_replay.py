"""Replays of the original's recorded REST answers against a real netmaster on a real store.

Each step must be answered as recorded, or it is pinned in `<scenario>.ours.jsonl` to a deviation
and to our own answer.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.bed.master import Answer, Master
from tests.bed.store import Store

HERE = Path(__file__).parent / "rest"
DEVIATIONS = Path(__file__).parents[2] / "docs" / "deviations.md"
SCENARIOS = (
    "networks",
    "globals",
    "plugin",
    "tenants",
    "names",
    "misc",
    "policies",
    "servicelb-bgp-aci-vol",
    "netprofile-ext-app",
    "mode-docker-vlan-bridge",
    "mode-swarm-mode-vlan-bridge",
)
THEIR_HOST = "10.77.0.1"
THEIR_DOCKER = "/var/run/docker.sock"
NO_DOCKER = "/nonexistent/docker.sock"
"""Nobody listened at theirs either."""
COMPARED_HEADERS = ("Content-Type", "X-Content-Type-Options", "Location")

Step = dict[str, Any]
Replay = Callable[[str], dict[int, Answer]]

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]


def lines(name: str) -> list[Step]:
    """Return the objects of one file."""
    path = HERE / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@cache
def recorded(scenario: str) -> dict[int, Step]:
    """Return the recorded steps by number."""
    return {step["step"]: step for step in lines(f"{scenario}.jsonl")[1:]}


@cache
def ours(scenario: str) -> dict[int, Step]:
    """Return what we answer differently, by step."""
    return {step["step"]: step for step in lines(f"{scenario}.ours.jsonl")}


def steps(*, deviating: bool) -> list[Any]:
    """Return the parameters of the steps that deviate, or of those that do not."""
    return [
        pytest.param(scenario, number, id=f"{scenario}-{number}")
        for scenario in SCENARIOS
        for number in recorded(scenario)
        if (number in ours(scenario)) is deviating
    ]


@pytest.fixture(scope="module")
def replay(bed_dirs: Iterator[Path], new_store: Callable[[], Store]) -> Replay:
    """Run each scenario once, on its own store and netmaster, and remember the answers."""
    answers: dict[str, dict[int, Answer]] = {}

    def run(scenario: str) -> dict[int, Answer]:
        if scenario not in answers:
            directory = next(bed_dirs)
            directory.mkdir()
            store = new_store()
            master = Master(directory, store, flags=flags_of(scenario))
            try:
                store.start()
                master.start()
                answers[scenario] = {
                    number: ask(master, step) for number, step in recorded(scenario).items()
                }
            finally:
                master.kill()
                store.kill()
        return answers[scenario]

    return run


def flags_of(scenario: str) -> tuple[str, ...]:
    """Return the flags of the recorded master."""
    start = json.loads((HERE / f"{scenario}.jsonl").read_text().partition("\n")[0])["start_state"]
    modes = json.loads(start[start.index("{") :])
    return (
        *("--mode", modes["mode"], "--netmode", modes["netmode"], "--fwdmode", modes["fwd"]),
        *("--docker-socket", NO_DOCKER),
    )


def ask(master: Master, step: Step) -> Answer:
    """Send a recorded request; addresses and paths in the answer become the recorded master's."""
    answer = master.ask(step["method"], step["path"], step["body"], step["req_headers"])
    text = answer.body.decode().replace(master.address, f"{THEIR_HOST}:9999")
    text = re.sub(r'"MyPort":\d+', '"MyPort":9001', text.replace('"127.0.0.1"', f'"{THEIR_HOST}"'))
    text = text.replace(NO_DOCKER, THEIR_DOCKER)
    return replace(answer, body=text.encode())


def as_set(value: Any) -> Any:
    """Return JSON data with lists of objects in an order of their own: they are sets."""
    if isinstance(value, list):
        items = [as_set(item) for item in value]
        objects = any(isinstance(item, dict) for item in value)
        return sorted(items, key=json.dumps) if objects else items
    if isinstance(value, dict):
        return {name: as_set(item) for name, item in value.items()}
    return value


def written(raw: str) -> Any:
    """Return JSON text as data that keeps the order of names, its end included."""

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return [(name, ordered(item)) for name, item in value.items()]
        return [ordered(item) for item in value] if isinstance(value, list) else value

    return ordered(as_set(json.loads(raw))), raw[len(raw.rstrip("\n")) :]


def body_of(answer: Answer) -> Any:
    """Return what counts of an answer: JSON as data, a text by its first line."""
    return as_set(answer.json()) if is_json(answer.headers) else answer.text


def is_json(headers: Mapping[str, str] | None) -> bool:
    """Say whether an answer is meant to be read as data."""
    return headers is not None and headers.get("Content-Type") == "application/json"


def assert_as_recorded(step: Step, answer: Answer) -> None:
    """Fail where an answer is not what was recorded."""
    expected = step["response"]
    if is_json(step["headers"]):
        wanted = as_set(expected)
    else:
        wanted = (step["raw"] or expected or "").partition("\n")[0]
    assert (answer.status, body_of(answer)) == (step["status"], wanted)
    for header in COMPARED_HEADERS:
        assert answer.headers.get(header) == (step["headers"] or {}).get(header)
    if step["raw"] is not None:
        assert written(answer.body.decode()) == written(step["raw"])


def is_as_recorded(step: Step, answer: Answer) -> bool:
    """Say whether an answer is what was recorded."""
    try:
        assert_as_recorded(step, answer)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(("scenario", "number"), steps(deviating=False))
def test_a_step_is_answered_as_recorded(scenario: str, number: int, replay: Replay) -> None:
    assert_as_recorded(recorded(scenario)[number], replay(scenario)[number])


@pytest.mark.parametrize(("scenario", "number"), steps(deviating=True))
def test_a_deviating_step_is_answered_as_pinned(scenario: str, number: int, replay: Replay) -> None:
    pinned, answer = ours(scenario)[number], replay(scenario)[number]
    assert (answer.status, body_of(answer)) == (pinned["status"], as_set(pinned["response"]))
    assert not is_as_recorded(recorded(scenario)[number], answer)
    assert not answer.text.startswith("internal error")


def test_every_deviation_is_documented() -> None:
    text = DEVIATIONS.read_text()
    ids = {step["id"] for scenario in SCENARIOS for step in ours(scenario).values()}
    assert [name for name in sorted(ids) if f"| {name} |" not in text] == []


def test_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    equal, deviating = len(steps(deviating=False)), len(steps(deviating=True))
    total = sum(len(recorded(scenario)) for scenario in SCENARIOS)
    with capsys.disabled():
        print(f"\nREST replays: {equal} equal, {deviating} deviating, total {total}")  # noqa: T201
    assert equal + deviating == total
