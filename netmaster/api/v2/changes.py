"""Decisions about any REST object in API v2: preconditions, then the plan of its class. Pure.

In come what `contivmodel.representation` read and the class of `netmaster.api.v1.objects`; out
comes a decision for `netmaster.commits.commit`, whose reply is an `Answer`. The plans are those of
v1. Where v1 keeps a value that cannot be changed and says nothing, v2 refuses.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from contivmodel.objects import RestObject
from contivmodel.representation import Posted, etag, fields_of, patched, same, shown
from contivmodel.wire import dumps
from core.errors import Conflict, Invalid, Malformed, NotFound, PreconditionFailed
from netmaster.api.v1.objects import ObjectClass
from netmaster.plan.model import Plan
from netmaster.view import View

Decide = Callable[[View], Plan]
_TAGS: Final = re.compile(r'\s*(?:"[\x21\x23-\x7e]*"\s*(?:,\s*|$))+')
_TAG: Final = re.compile(r'"[\x21\x23-\x7e]*"')
_ANY: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client gets for a change: the object's key, and the object unless it was deleted."""

    status: int
    key: str
    etag: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What a request wants the object to be: one of these tags; `*` is any object.

    None is no precondition.
    """

    match: frozenset[str] | None = None
    none_match: frozenset[str] | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Preconditions":
        """Return those of a request's headers. Raises Malformed for what is no entity tag."""
        return cls(match=_tags("If-Match", headers), none_match=_tags("If-None-Match", headers))

    def check(self, name: str, before: RestObject | None) -> None:
        """Raise PreconditionFailed unless the object, None if there is none, is as wanted."""
        now = etag(before) if before else ""
        if self.match is not None and not _is_among(now, self.match):
            there = f"has the ETag {now}" if before else "does not exist"
            raise PreconditionFailed(f"If-Match: {name} {there}; nothing was changed")
        if self.none_match is not None and _is_among(now, self.none_match):
            raise PreconditionFailed(f"If-None-Match: {name} exists, with the ETag {now}")

    def is_known(self, obj: RestObject) -> bool:
        """Return whether the client that reads an object has it already."""
        return self.none_match is not None and _is_among(etag(obj), self.none_match)


def found(view: View, kind: ObjectClass, key: str) -> RestObject:
    """Return a stored object. Raises NotFound."""
    stored = view.objects[kind.model.kind].get(key)
    if stored is None:
        raise NotFound(f"{kind.model.kind} {key} not found")
    return stored


def create(kind: ObjectClass, posted: Posted[RestObject], wanted: Preconditions) -> Decide:
    """Return the decision to create an object; Conflict if it exists."""
    key = posted.obj.key

    def decide(view: View) -> Plan:
        before = view.objects[kind.model.kind].get(key)
        wanted.check(f"{kind.model.kind} {key}", before)
        if before is not None:
            raise Conflict(f"{kind.model.kind} {key} exists already")
        return _created(kind, view, posted)

    return decide


def put(kind: ObjectClass, posted: Posted[RestObject], wanted: Preconditions) -> Decide:
    """Return the decision to create an object, or to replace it where it exists."""
    key = posted.obj.key

    def decide(view: View) -> Plan:
        before = view.objects[kind.model.kind].get(key)
        wanted.check(f"{kind.model.kind} {key}", before)
        return _replaced(kind, view, before, posted) if before else _created(kind, view, posted)

    return decide


def patch(kind: ObjectClass, key: str, body: bytes, wanted: Preconditions) -> Decide:
    """Return the decision to change some fields of an object by a merge patch."""

    def decide(view: View) -> Plan:
        before = found(view, kind, key)
        wanted.check(f"{kind.model.kind} {key}", before)
        return _replaced(kind, view, before, patched(before, body))

    return decide


def delete(kind: ObjectClass, key: str, mode: str, wanted: Preconditions) -> Decide:
    """Return the decision to delete an object."""

    def decide(view: View) -> Plan:
        wanted.check(f"{kind.model.kind} {key}", found(view, kind, key))
        plan = kind.deletion(mode)(view, key)
        return replace(plan, reply=Answer(status=HTTPStatus.NO_CONTENT, key=key))

    return decide


def _created(kind: ObjectClass, view: View, posted: Posted[RestObject]) -> Plan:
    plan = _planned(kind.create, view, posted.obj)
    after = _of(plan)
    _check_kept(posted, after, cleared=False)
    return replace(plan, reply=_answer(HTTPStatus.CREATED, after))


def _replaced(
    kind: ObjectClass, view: View, before: RestObject, posted: Posted[RestObject]
) -> Plan:
    # Most classes refuse any update, also one that changes nothing. A client that sends what is
    # there has what it wants.
    if same(before, posted.obj):
        return Plan((), reply=_answer(HTTPStatus.OK, before))
    plan = _planned(kind.replace or kind.update, view, posted.obj)
    after = _of(plan)
    _check_kept(posted, after, cleared=True)
    return replace(plan, reply=_answer(HTTPStatus.OK, after))


def _planned(decide: Callable[[View, RestObject], Plan], view: View, obj: RestObject) -> Plan:
    try:
        return decide(view, obj)
    except NotFound as exc:  # of another object, which this one names
        raise Invalid(f"{obj.kind} {obj.key}: {exc}") from exc


def _of(plan: Plan) -> RestObject:
    if not isinstance(plan.reply, RestObject):
        raise TypeError(f"a plan replied {plan.reply!r} instead of an object")
    return plan.reply


def _check_kept(posted: Posted[RestObject], after: RestObject, *, cleared: bool) -> None:
    """Raise Conflict for a field that was named and would have another value all the same.

    An empty field of a new object asks for netmaster's choice; `cleared` says that it asks for
    an empty one.
    """
    for name, attribute in fields_of(type(after)).items():
        wanted, made = getattr(posted.obj, attribute), getattr(after, attribute)
        if attribute in posted.named and (wanted or cleared) and _unique(wanted) != made:
            raise Conflict(
                f"{after.kind} {after.key}: {name} stays {made!r} and cannot be {wanted!r}"
            )


def _unique(value: object) -> object:
    return list(dict.fromkeys(value)) if isinstance(value, list) else value


def _answer(status: int, obj: RestObject) -> Answer:
    return Answer(status=status, key=obj.key, etag=etag(obj), body=dumps(shown(obj)).decode())


def _is_among(tag: str, wanted: frozenset[str]) -> bool:
    return bool(tag) and (tag in wanted or _ANY in wanted)


def _tags(name: str, headers: Mapping[str, str]) -> frozenset[str] | None:
    text = headers.get(name)
    if text is None:
        return None
    if text.strip() == _ANY:
        return frozenset({_ANY})
    # A weak tag never matches a change (RFC 9110 §13.1.1) and is none of ours.
    if not _TAGS.fullmatch(text):
        raise Malformed(f'header {name}: {text} is neither * nor a list of "entity tags"')
    return frozenset(_TAG.findall(text))
