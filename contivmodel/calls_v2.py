"""What clients of API v2 send and how they read the answers: calls as values. Pure.

In come models of `contivmodel.objects` and what a user asks for; out come `Call`s, which
`contivmodel.client_v2` sends blocking and `contivmodel.client_async` awaits. An `ApiChange` is what
is to be made; it can be previewed (a dry run) and made, and has an idempotency key of its own, so
that making it again after an unknown outcome makes it once. Errors are those of `core.errors`, with
netmaster's detail and remedy.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from contivmodel.client_sync import Answered
from contivmodel.objects import RestObject
from contivmodel.outcome import HEADER, Outcome
from contivmodel.representation import Json, loaded, shown
from core.errors import (
    Conflict,
    ContivError,
    Exhausted,
    Invalid,
    Malformed,
    MasterRefused,
    MasterUnavailable,
    NotFound,
    PreconditionFailed,
    TooLarge,
)

API: Final = "/api/v2"
PAGE: Final = 1000
M = TypeVar("M", bound=RestObject)
T = TypeVar("T")

_ERRORS: Final[Mapping[str, type[ContivError]]] = {
    "malformed-request": Malformed,
    "invalid-value": Invalid,
    "not-found": NotFound,
    "conflict": Conflict,
    "exhausted": Exhausted,
    "precondition-failed": PreconditionFailed,
    "too-large": TooLarge,
}
"""Last part of a problem's type -> what is raised; others are MasterRefused."""


@dataclass(frozen=True, slots=True)
class Versioned(Generic[M]):
    """An object and its ETag, by which a change can be made only if it is still the same."""

    obj: M
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    path: str
    read: Callable[[Answered], T]
    method: str = "GET"
    payload: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def answer(self, answered: Answered) -> T:
        """Return what an answer says. Raises the error that it tells, of `core.errors`."""
        if answered.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise _problem(answered)
        return self.read(answered)


class Page(NamedTuple, Generic[T]):
    """A part of a list; `next` asks for the part behind it, "" at the end."""

    items: list[T]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """A list that is read page by page; `load` makes an item of its JSON."""

    path: str
    load: Callable[[Json], T]
    asked: tuple[tuple[str, str], ...] = ()
    limit: int = PAGE

    def page(self, after: str) -> Call[Page[T]]:
        """Return the call for the page behind `after`, "" for the first."""
        more = (("after", after),) if after else ()
        query = urlencode([*self.asked, ("limit", self.limit), *more])
        return Call(path=f"{self.path}?{query}", read=self._page)

    def _page(self, answered: Answered) -> Page[T]:
        told = _json(answered)
        return Page([self.load(item) for item in told["items"]], told["next"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A packet to trace: from and to endpoints, hosts, services or addresses, by name or address.

    `proto` is `icmp`, `tcp`, `udp`, `sctp` or a number; `tenant` is whose names count, "" for all.
    """

    src: str
    dst: str
    proto: str = "icmp"
    port: int = 0
    sport: int | None = None
    family: int = 4
    tenant: str = ""

    def query(self) -> str:
        """Return it as the parameters of a request."""
        sport = {} if self.sport is None else {"sport": self.sport}
        tenant = {"tenant": self.tenant} if self.tenant else {}
        ends = {"src": self.src, "dst": self.dst, "proto": self.proto}
        return urlencode({**ends, "port": self.port, "family": self.family, **sport, **tenant})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiChange(Generic[M]):
    """A change of one object, to be previewed or made; made again, it is made once."""

    model: type[M]
    method: str
    path: str
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunResult(Generic[M]):
    """What a change would be answered with, and its effects."""

    status: int
    obj: M | None
    effects: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvent:
    """A change of an object that was made: `obj` is its JSON, None if it was deleted."""

    plural: str
    key: str
    obj: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """What one transaction changed, at a revision of the store; `id` is to be sent to go on.

    With `reset` changes may have been missed, or the store went back: read all objects again.
    """

    id: str
    revision: int
    changes: tuple[ObjectEvent, ...] = ()
    reset: bool = False


def creation(obj: M) -> ApiChange[M]:
    """Return the change that creates an object."""
    return ApiChange(
        model=type(obj), method="POST", path=f"{API}/{obj.plural}", body=_without_key(obj)
    )


def replacement(obj: M, *, etag: str = "") -> ApiChange[M]:
    """Return the change that creates an object or replaces the one with the ETag."""
    path = _item(type(obj), obj.object_key())
    return ApiChange(
        model=type(obj), method="PUT", path=path, body=_without_key(obj), headers=_if_match(etag)
    )


def patch(model: type[M], key: str, fields: Json, *, etag: str = "") -> ApiChange[M]:
    """Return the change of some fields, by their names in JSON; None stands for the default."""
    path = _item(model, key)
    return ApiChange(model=model, method="PATCH", path=path, body=fields, headers=_if_match(etag))


def deletion(model: type[M], key: str, *, etag: str = "") -> ApiChange[M]:
    """Return the change that deletes an object."""
    return ApiChange(model=model, method="DELETE", path=_item(model, key), headers=_if_match(etag))


def reading(model: type[M], key: str) -> Call[Versioned[M]]:
    """Return the call for an object. It raises NotFound."""
    return Call(path=_item(model, key), read=partial(_versioned, model))


def state_of(model: type[M], key: str) -> Call[Json]:
    """Return the call for the operational state of an object."""
    return Call(path=f"{_item(model, key)}/state", read=_json)


def objects(
    model: type[M], having: Mapping[str, str] | None = None, *, limit: int = PAGE
) -> Listing[M]:
    """Return the list of objects whose fields, by their names in JSON, have these values."""
    asked = tuple((having or {}).items())
    load = partial(loaded, model)
    return Listing(path=f"{API}/{model.plural}", load=load, asked=asked, limit=limit)


def hosts(having: Mapping[str, str] | None = None) -> Listing[Json]:
    """Return the list of hosts, with what they have applied."""
    return Listing(path=f"{API}/hosts", load=dict, asked=tuple((having or {}).items()))


def address_use(having: Mapping[str, str] | None = None) -> Listing[Json]:
    """Return the list of networks with how full they are."""
    return Listing(path=f"{API}/ipam", load=dict, asked=tuple((having or {}).items()))


def endpoints(
    having: Mapping[str, str] | None = None, *, labels: Iterable[str] = ()
) -> Listing[Json]:
    """Return the list of endpoints: by tenant, network, group, host, container, address, labels.

    Each of `labels` is `key` or `key=value`; an endpoint has all of them.
    """
    asked = (*(having or {}).items(), *(("label", one) for one in labels))
    return Listing(path=f"{API}/endpoints", load=dict, asked=asked)


def trace(packet: Packet, *, live: bool = False) -> Call[Json]:
    """Return the call that traces a packet, by the flows that it meets; `live` sends a real one."""
    method = "POST" if live else "GET"
    return Call(method=method, path=f"{API}/trace?{packet.query()}", read=_json)


def self_test() -> Call[Json]:
    """Return the call that has each host test itself and its ways to all others."""
    return Call(path=f"{API}/selftest", read=_json)


def rule_hits(tenant: str, policy: str) -> Call[Json]:
    """Return the call for how many packets the flows of a policy's rules have met."""
    query = urlencode({"tenant": tenant, "policy": policy})
    return Call(path=f"{API}/rule-hits?{query}", read=_json)


def kubernetes_rules(namespace: str = "", pod: str = "") -> Call[Json]:
    """Return the call for what Kubernetes' policies and services say of pods, "" for any."""
    query = urlencode({"namespace": namespace, "pod": pod})
    return Call(path=f"{API}/kubernetes-rules?{query}", read=_json)


def making(change: ApiChange[M]) -> Call[Versioned[M] | None]:
    """Return the call that makes a change; its answer is the object, None if it was deleted."""

    def made(answered: Answered) -> Versioned[M] | None:
        if answered.status == HTTPStatus.NO_CONTENT:
            return None
        return _versioned(change.model, answered)

    headers = {**change.headers, "Idempotency-Key": change.key}
    return Call(
        method=change.method,
        path=change.path,
        read=made,
        payload=_payload(change.body),
        headers=headers,
    )


def preview(change: ApiChange[M]) -> Call[DryRunResult[M]]:
    """Return the call that tells what a change would do. It raises what making it would."""

    def result(answered: Answered) -> DryRunResult[M]:
        told = _json(answered)
        obj = told["object"]
        return DryRunResult(
            status=told["status"],
            obj=loaded(change.model, obj) if obj else None,
            effects=told["effects"],
        )

    return Call(
        method=change.method,
        path=f"{change.path}?dryRun=true",
        read=result,
        payload=_payload(change.body),
        headers=change.headers,
    )


def watching(after: str | None) -> Call[None]:
    """Return the call whose answer, if it is 200, is a stream for `EventReader`."""
    headers = {} if after is None else {"Last-Event-ID": after}
    return Call(path=f"{API}/events", read=_no_stream, headers=headers)


class EventReader:
    """Reads the stream of a watch (the part of server-sent events that netmaster uses)."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def read(self, part: bytes) -> Iterator[Events]:
        """Yield the events that a part of the stream completes."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if text := line.decode().rstrip("\r"):
                name, _, value = text.partition(": ")
                self._fields[name] = value
            else:
                fields, self._fields = self._fields, {}
                if "id" in fields:
                    yield _event(fields)


class Followed(Generic[M]):
    """The objects of a class as a watch tells of them; `after` is the last event that counts."""

    def __init__(self, model: type[M]) -> None:
        self.found: dict[str, M] = {}
        self.after: str | None = None
        self._model = model

    def lacks(self, event: Events) -> bool:
        """Return whether all objects must be read into `found` before an event is taken."""
        return self.after is None or event.reset

    def took(self, event: Events) -> bool:
        """Take an event; return whether it changes objects of the class."""
        changed = [one for one in event.changes if one.plural == self._model.plural]
        for one in changed:
            self.found.pop(one.key, None)
            if one.obj is not None:
                self.found[one.key] = loaded(self._model, one.obj)
        # Only now: whoever could not read all objects is told again to do so.
        self.after = event.id
        return bool(changed)


def _event(fields: Mapping[str, str]) -> Events:
    told = json.loads(fields.get("data", "{}"))
    return Events(
        id=fields["id"],
        revision=int(fields["id"].rpartition(".")[2]),
        changes=tuple(map(_change, told.get("changes", ()))),
        reset=fields.get("event") == "reset",
    )


def _no_stream(answered: Answered) -> None:
    raise MasterRefused(f"the answer {answered.status} is no stream of events")


def _payload(body: Json | None) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


def _change(told: Json) -> ObjectEvent:
    return ObjectEvent(plural=told["kind"], key=told["key"], obj=told.get("object"))


def _item(model: type[RestObject], key: str) -> str:
    return f"{API}/{model.plural}/{quote(key, safe=':')}"


def _without_key(obj: RestObject) -> Json:
    return {name: value for name, value in shown(obj).items() if name != "key"}


def _if_match(etag: str) -> dict[str, str]:
    return {"If-Match": etag} if etag else {}


def _versioned(model: type[M], answered: Answered) -> Versioned[M]:
    return Versioned(loaded(model, _json(answered)), answered.headers.get("ETag", ""))


def _json(answered: Answered) -> Json:
    try:
        found = json.loads(answered.body)
    except ValueError as exc:
        raise MasterRefused(f"the answer is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise MasterRefused("the answer is not a JSON object")
    return found


def _problem(answered: Answered) -> ContivError:
    try:
        told: Any = json.loads(answered.body)
    except ValueError:
        told = None
    problem: Json = told if isinstance(told, dict) else {}
    text = str(problem.get("detail") or f"{answered.status} {answered.reason}")
    if "remedy" in problem:
        text += f" ({problem['remedy']})"
    if "Retry-After" in answered.headers:
        surely_not = answered.headers.get(HEADER) in {Outcome.REFUSED, Outcome.ABSENT}
        return MasterUnavailable(text, outcome_unknown=not surely_not)
    kind = str(problem.get("type", "")).rpartition(":")[2]
    return _ERRORS.get(kind, MasterRefused)(text)
