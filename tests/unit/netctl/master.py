"""A netmaster in memory with the API of the REST client, and a way to run netctl against it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.errors import MasterRefused
from netctl.main import run

Json = dict[str, Any]


@dataclass
class MemoryMaster:
    """Answers with the objects it is given and remembers what it was asked to change."""

    objects: dict[str, dict[str, Json]] = field(default_factory=dict)
    inspected: dict[tuple[str, str], Json] = field(default_factory=dict)
    written: list[tuple[str, str, Json]] = field(default_factory=list)
    kept: list[Json] = field(default_factory=list)
    asked_kept: list[Json] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    patched: list[tuple[str, str, Json]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    refusal: str = ""
    host_states: Callable[[int], list[Json]] = lambda _look: []
    """The hosts at each look, by its number."""
    looks: int = 0
    found: list[Json] = field(default_factory=list)
    """The endpoints that any query finds."""
    changed: list[Json] = field(default_factory=list)
    """The last changes, the newest first."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    """The body of an answer that is streamed."""
    tested: Json = field(default_factory=dict)
    hits: Json = field(default_factory=dict)
    kube_rules: Json = field(default_factory=dict)
    logged: Json = field(default_factory=dict)
    flow_page: Json = field(default_factory=dict)
    suggested: Json = field(default_factory=dict)
    condition: Callable[[int], Json] = field(default=lambda _: {})
    flow_events: list[tuple[str, Json]] = field(default_factory=list)
    """What the first watch of flows tells; a second one is refused."""
    traced: Json = field(default_factory=dict)
    ipam: Json = field(default_factory=dict)
    fixed: Json = field(default_factory=dict)
    drained: dict[str, bool] = field(default_factory=dict)
    removed: list[tuple[str, bool]] = field(default_factory=list)

    def add(self, plural: str, *found: Json) -> None:
        self.objects.setdefault(plural, {}).update({f["key"]: f for f in found})

    def list_all(self, plural: str) -> list[Json]:
        return list(self.objects.get(plural, {}).values())

    def read(self, plural: str, key: str) -> Json:
        self._refuse()
        try:
            return self.objects[plural][key]
        except KeyError as exc:
            raise MasterRefused(f"{plural[:-1]} not found\n") from exc

    def endpoints(self, asked: Iterable[tuple[str, str]]) -> Iterator[Json]:
        self._refuse()
        self.asked = list(asked)
        return iter(self.found)

    def changes(self, asked: Mapping[str, str], most: int) -> list[Json]:
        self._refuse()
        self.asked = [*asked.items(), ("limit", str(most))]
        return self.changed

    def capture(self, endpoint: str, bounds: Mapping[str, str]) -> Iterator[bytes]:
        self._refuse()
        self.asked = [("endpoint", endpoint), *bounds.items()]
        yield from self.parts

    def diagnosis(self) -> Iterator[bytes]:
        self._refuse()
        yield from self.parts

    def self_test(self) -> Json:
        self._refuse()
        return self.tested

    def rule_hits(self, tenant: str, policy: str) -> Json:
        self._refuse()
        self.asked = [("tenant", tenant), ("policy", policy)]
        return self.hits

    def kubernetes_rules(self, namespace: str, pod: str) -> Json:
        self._refuse()
        self.asked = [("namespace", namespace), ("pod", pod)]
        return self.kube_rules

    def policy_log(self, asked: Mapping[str, str], most: int) -> Json:
        self._refuse()
        self.asked = [*asked.items(), ("limit", str(most))]
        return self.logged

    def flows(self, asked: Mapping[str, str], most: int) -> Json:
        self._refuse()
        self.asked = [*asked.items(), ("limit", str(most))]
        return self.flow_page

    def conditions(self, plural: str, key: str) -> Json:
        self.looks += 1
        self._refuse()
        self.asked = [(plural, key)]
        return self.condition(self.looks)

    def policy_suggestion(self, asked: Mapping[str, str]) -> Json:
        self._refuse()
        self.asked = list(asked.items())
        return self.suggested

    def watch_flows(self, asked: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
        self.asked = list(asked.items())
        told, self.flow_events = self.flow_events, []
        if not told:
            raise MasterRefused("no more")
        yield from told

    def trace(self, asked: Iterable[tuple[str, str]]) -> Json:
        self._refuse()
        self.asked = list(asked)
        return self.traced

    def live_trace(self, asked: Iterable[tuple[str, str]]) -> Json:
        self._refuse()
        self.asked = [*asked, ("live", "")]
        return self.traced

    def hosts(self) -> list[Json]:
        self.looks += 1
        return self.host_states(self.looks)

    def host(self, label: str) -> Json:
        self._refuse()
        return next(state for state in self.hosts() if state["label"] == label)

    def inspect(self, plural: str, key: str) -> Json:
        self._refuse()
        return self.inspected[plural, key]

    def write(self, plural: str, key: str, body: Mapping[str, Any]) -> None:
        self._refuse()
        self.written.append((plural, key, dict(body)))

    def create_if_absent(self, plural: str, key: str, body: Mapping[str, Any]) -> Json | None:
        self._refuse()
        if there := self.objects.get(plural, {}).get(key):
            return there
        self.write(plural, key, body)
        return None

    def change(self, plural: str, key: str, fields: Mapping[str, Any]) -> None:
        self._refuse()
        self.patched.append((plural, key, dict(fields)))

    def delete(self, plural: str, key: str) -> None:
        self._refuse()
        self.deleted.append((plural, key))

    def kept_addresses(self, asked: Mapping[str, str]) -> Iterator[Json]:
        self._refuse()
        self.asked_kept.append(dict(asked))
        yield from self.kept

    def release_kept(self, key: str) -> None:
        self._refuse()
        self.released.append(key)

    def check_ipam(self) -> Json:
        self._refuse()
        return self.ipam

    def fix_ipam(self) -> Json:
        self._refuse()
        return self.fixed

    def drain_host(self, label: str, *, undo: bool) -> Json:
        self._refuse()
        self.drained[label] = not undo
        return {"label": label, "drained": not undo, "endpoints": 3}

    def remove_host(self, label: str, *, force: bool) -> None:
        self._refuse()
        self.removed.append((label, force))

    def version(self) -> Json:
        self._refuse()
        return {"GitCommit": "abc", "Version": "9.9", "BuildTime": "today"}

    def _refuse(self) -> None:
        if self.refusal:
            raise MasterRefused(self.refusal)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The text of the error line."""
        return self.err.partition("level=error msg=")[2].removesuffix(" \n")


@dataclass(frozen=True)
class Netctl:
    """Runs command lines in this process."""

    master: MemoryMaster
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> Outcome:
        code = run(words)
        out, err = self.capsys.readouterr()
        return Outcome(code, out, err)
