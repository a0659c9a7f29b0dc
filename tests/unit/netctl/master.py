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
    logged: Json = field(default_factory=dict)
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

    def policy_log(self, asked: Mapping[str, str], most: int) -> Json:
        self._refuse()
        self.asked = [*asked.items(), ("limit", str(most))]
        return self.logged

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

    def delete(self, plural: str, key: str) -> None:
        self._refuse()
        self.deleted.append((plural, key))

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
