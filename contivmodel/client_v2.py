"""A blocking client of API v2 that speaks of models: `contivmodel.objects` in, the same out.

A `Change` is what is to be made; it can be foretold (a dry run) and made, and has an idempotency
key of its own, so that making it again after an unknown outcome makes it once. Errors are those of
`core.errors`, with netmaster's detail and remedy.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from contivmodel.client_sync import TIMEOUT, Answered, RestClient, Secure
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
class Change(Generic[M]):
    """A change of one object, to be foretold or made; made again, it is made once."""

    model: type[M]
    method: str
    path: str
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold(Generic[M]):
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


def creation(obj: M) -> Change[M]:
    """Return the change that creates an object."""
    return Change(
        model=type(obj), method="POST", path=f"{API}/{obj.plural}", body=_without_key(obj)
    )


def replacement(obj: M, *, etag: str = "") -> Change[M]:
    """Return the change that creates an object or replaces the one with the ETag."""
    path = _item(type(obj), obj.object_key())
    return Change(
        model=type(obj), method="PUT", path=path, body=_without_key(obj), headers=_if_match(etag)
    )


def patch(model: type[M], key: str, fields: Json, *, etag: str = "") -> Change[M]:
    """Return the change of some fields, by their names in JSON; None stands for the default."""
    path = _item(model, key)
    return Change(model=model, method="PATCH", path=path, body=fields, headers=_if_match(etag))


def deletion(model: type[M], key: str, *, etag: str = "") -> Change[M]:
    """Return the change that deletes an object."""
    return Change(model=model, method="DELETE", path=_item(model, key), headers=_if_match(etag))


class ApiClient:
    """Client of one netmaster, leader or follower; the arguments are those of `RestClient`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str = "",
        timeout: float = TIMEOUT,
        secure: Secure | None = None,
    ) -> None:
        self._rest = RestClient(base_url, token=token, timeout=timeout, secure=secure)

    def read(self, model: type[M], key: str) -> Versioned[M]:
        """Return an object. Raises NotFound."""
        return _versioned(model, _checked(self._rest.send("GET", _item(model, key))))

    def list_all(
        self, model: type[M], having: Mapping[str, str] | None = None, *, limit: int = PAGE
    ) -> Iterator[M]:
        """Yield the objects whose fields, by their names in JSON, have these values."""
        for item in self._items(f"{API}/{model.plural}", having or {}, limit):
            yield loaded(model, item)

    def state(self, model: type[M], key: str) -> Json:
        """Return the operational state of an object."""
        return _json(_checked(self._rest.send("GET", f"{_item(model, key)}/state")))

    def hosts(self, having: Mapping[str, str] | None = None) -> Iterator[Json]:
        """Yield the hosts, with what they have applied."""
        return self._items(f"{API}/hosts", having or {}, PAGE)

    def address_use(self, having: Mapping[str, str] | None = None) -> Iterator[Json]:
        """Yield how full the networks are."""
        return self._items(f"{API}/ipam", having or {}, PAGE)

    def make(self, change: Change[M]) -> Versioned[M] | None:
        """Make a change; return the object, None if it was deleted.

        After MasterUnavailable with `outcome_unknown`, make the same change again.
        """
        headers = {**change.headers, "Idempotency-Key": change.key}
        answered = _checked(self._send(change, "", headers))
        if answered.status == HTTPStatus.NO_CONTENT:
            return None
        return _versioned(change.model, answered)

    def foretell(self, change: Change[M]) -> Foretold[M]:
        """Return what a change would do. Raises what making it would."""
        told = _json(_checked(self._send(change, "?dryRun=true", change.headers)))
        obj = told["object"]
        return Foretold(
            status=told["status"],
            obj=loaded(change.model, obj) if obj else None,
            effects=told["effects"],
        )

    def follow(self, model: type[M]) -> Iterator[Mapping[str, M]]:
        """Yield all objects of a class by key, as they are now, and again after each change.

        Connects again where it ended, and reads the whole list again where the events do not tell
        all. Raises MasterUnavailable; whoever goes on after that begins anew.
        """
        found: dict[str, M] = {}
        after: str | None = None
        while True:
            for event in self.events(after):
                whole = after is None or event.reset
                after = event.id
                if whole:
                    found = {one.object_key(): one for one in self.list_all(model)}
                changed = [one for one in event.changes if one.plural == model.plural]
                for one in changed:
                    found.pop(one.key, None)
                    if one.obj is not None:
                        found[one.key] = loaded(model, one.obj)
                if whole or changed:
                    yield dict(found)

    def events(self, after: str | None = None) -> Iterator[Events]:
        """Yield what changes behind an event's id, or from now on, until the connection ends.

        The first one has no changes if `after` is None: it says where the watch begins. Go on
        with the last id, with any netmaster. Raises MasterUnavailable.
        """
        headers = {} if after is None else {"Last-Event-ID": after}
        with self._rest.opened("GET", f"{API}/events", headers=headers) as response:
            if response.status != HTTPStatus.OK:
                body, told = response.read(), dict(response.headers)
                raise _problem(Answered(response.status, response.reason, body, told))
            lines = (line.decode().rstrip("\r\n") for line in response)
            yield from _events(lines)

    def _send(self, change: Change[M], query: str, headers: Mapping[str, str]) -> Answered:
        payload = None if change.body is None else json.dumps(change.body).encode()
        return self._rest.send(change.method, change.path + query, payload, **headers)

    def _items(self, path: str, having: Mapping[str, str], limit: int) -> Iterator[Json]:
        after = ""
        while True:
            query = urlencode({**having, "limit": limit, **({"after": after} if after else {})})
            page = _json(_checked(self._rest.send("GET", f"{path}?{query}")))
            yield from page["items"]
            after = page["next"]
            if not after:
                return


def _events(lines: Iterator[str]) -> Iterator[Events]:
    """Yield the events of a stream (the part of server-sent events that netmaster uses)."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "id" in fields:
            told = json.loads(fields.get("data", "{}"))
            yield Events(
                id=fields["id"],
                revision=int(fields["id"].rpartition(".")[2]),
                changes=tuple(map(_change, told.get("changes", ()))),
                reset=fields.get("event") == "reset",
            )
        fields = {}


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


def _checked(answered: Answered) -> Answered:
    if answered.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise _problem(answered)
    return answered


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
