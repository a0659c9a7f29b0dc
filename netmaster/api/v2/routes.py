"""The routes of API v2, and what OpenAPI tells of them: the same rows for each class of objects.

`netmaster.api.route_table` puts them beside v1's. The route of watches is answered by every master
itself (`netmaster.api.v2.events.stream`); here it is only described.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aiohttp import web

from contivmodel.answers import schema_of
from contivmodel.schema import TEXT, Schema, named, patch_reference, shown_reference
from contivmodel.schema import name as name_of
from contivmodel.service_objects import Bgp
from core.errors import NotSupported
from netmaster.api.http import paging
from netmaster.api.http.problems import PREFIX
from netmaster.api.http.routes import OperationDoc, Route
from netmaster.api.leader import dry_run
from netmaster.api.leader.leader_context import ApiRequest, Handler, LeaderContext
from netmaster.api.v1.objects import ObjectClass
from netmaster.api.v2 import handlers, idempotency, kept_addresses, queries
from netmaster.api.v2.events.stream import EVENT_STREAM, LAST_EVENT_ID, PATH, QUERY
from netmaster.api.v2.examples import EXAMPLES
from netmaster.host_progress import ShownHost
from netmaster.plan.show import change_pages
from netmaster.plan.show.address_use import AddressUse
from netmaster.plan.show.kept_addresses import KeptAddress

_OBJECT: Final[Schema] = {"type": "object"}
_SOME_FIELDS: Final = named(
    "SomeFields", {"type": "object", "description": "the fields that were asked for, and the key"}
)
_CONDITIONS: Final = {
    "If-Match": "the ETag that the object must have; `*` for any, so that it must exist",
    "If-None-Match": "`*`: the object must not exist",
}
_KNOWN: Final = {
    "If-None-Match": "the ETag that the client has: 304 if the object still has it",
    "If-Match": "the ETag that the object must have",
}
_KEYED: Final = {
    idempotency.HEADER: f"1 to {idempotency.LONGEST} visible characters that name this change: "
    "sent again, it is answered as before and not made twice",
}
_TAG: Final = "v2"


def object_routes(kinds: Iterable[ObjectClass]) -> Iterator[Route[Handler]]:
    """Yield the routes of all classes of objects."""
    for kind in kinds:
        yield from _routes_of(kind)


def other_routes() -> Iterator[Route[Handler]]:
    """Yield the routes of what is read only: hosts and addresses."""
    hosts = _list("list hosts v2", "Host", schema_of(ShownHost), handlers.HOST_FILTERS)
    yield Route("GET", f"{PREFIX}hosts", handlers.list_hosts, hosts)
    host = OperationDoc(summary="read host v2", tag=_TAG, answer=ShownHost)
    yield Route("GET", f"{PREFIX}hosts/{{label}}", handlers.read_host, host)
    use = schema_of(AddressUse)
    networks = _list("list address use", "AddressUse", use, handlers.NETWORK_FILTERS)
    yield Route("GET", f"{PREFIX}ipam", handlers.list_address_use, networks)
    one = schema_of(KeptAddress)
    kept = _list("list kept addresses", "KeptAddress", one, kept_addresses.FILTERS)
    yield Route("GET", kept_addresses.PATH, kept_addresses.show, kept)
    freed = OperationDoc(summary="release kept address", tag=_TAG, answers={204: None})
    yield Route("DELETE", kept_addresses.ITEM, kept_addresses.release, freed)
    changes = _list("list changes", "Change", schema_of(change_pages.ShownChange), ())
    changes = replace(changes, query={**change_pages.FILTERS, **paging.PAGED})
    yield Route("GET", f"{PREFIX}changes", handlers.list_changes, changes)
    events = OperationDoc(
        summary="watch objects",
        tag=_TAG,
        answer=TEXT,
        media=EVENT_STREAM,
        query=QUERY,
        headers={LAST_EVENT_ID: "the id of the last event that the client has seen"},
    )
    yield Route("GET", PATH, _answered_before, events)


async def _answered_before(_leader: LeaderContext, _request: ApiRequest) -> web.Response:
    # The server answers this path before it asks its role (`netmaster.api.http.server`).
    raise NotSupported(f"{PATH} is not served here")


def _routes_of(kind: ObjectClass) -> Iterator[Route[Handler]]:
    name, model = kind.model.kind, kind.model
    whole = shown_reference(model)
    collection = f"{PREFIX}{model.plural}"
    item = f"{collection}/{{key}}"
    called = f"{name_of(model)}.v2"
    tried = _dry_run(called, whole)

    def change(summary: str, answers: dict[int, Schema | None], **more: Any) -> OperationDoc:
        answer: Schema = {"anyOf": [whole, tried]} if 200 in answers else tried
        others = {status: schema for status, schema in answers.items() if status != 200}
        return OperationDoc(
            summary=f"{summary} {name} v2",
            tag=_TAG,
            answer=answer,
            answers=others,
            query=dry_run.QUERY,
            headers={**_CONDITIONS, **_KEYED},
            **more,
        )

    filters = handlers.filters_of(model)
    yield Route(
        "GET",
        collection,
        partial(handlers.list_objects, kind),
        _list(f"list {name} v2", called, whole, filters),
    )
    sent = {"content": {handlers.JSON: whole}, "example": EXAMPLES.get(model.plural)}
    create = change("create", {201: whole}, **sent)
    yield Route("POST", collection, partial(handlers.create_object, kind), create)
    read = OperationDoc(
        summary=f"read {name} v2",
        tag=_TAG,
        answer=_some_of(whole),
        answers={304: None},
        query=queries.FIELDS,
        headers=_KNOWN,
    )
    yield Route("GET", item, partial(handlers.read_object, kind), read)
    put = change("put", {200: whole, 201: whole}, **sent)
    yield Route("PUT", item, partial(handlers.put_object, kind), put)
    patch = change(
        "patch",
        {200: whole},
        content=dict.fromkeys((handlers.MERGE_PATCH, handlers.JSON), patch_reference(model)),
    )
    yield Route("PATCH", item, partial(handlers.patch_object, kind), patch)
    delete = change("delete", {204: None})
    yield Route("DELETE", item, partial(handlers.delete_object, kind), delete)
    if kind.inspect is not None or model is Bgp:
        state = OperationDoc(summary=f"state of {name} v2", tag=_TAG, answer=_OBJECT)
        yield Route("GET", f"{item}/state", partial(handlers.read_state, kind), state)


def _list(summary: str, called: str, item: Schema, filters: Iterable[str]) -> OperationDoc:
    having = {name: f"only items with this {name}" for name in filters}
    items: Schema = {"type": "array", "items": _some_of(item)}
    answer = named(f"{called}.page", schema_of(handlers.ShownPage, items=items))
    query = {**having, **paging.PAGED, **queries.FIELDS}
    return OperationDoc(summary=summary, tag=_TAG, answer=answer, query=query)


def _some_of(item: Schema) -> Schema:
    """Return the schema of an item of which a client may have asked for some fields."""
    return {"anyOf": [item, _SOME_FIELDS]}


def _dry_run(called: str, whole: Schema) -> Schema:
    shown: Schema = {"anyOf": [whole, {"type": "null"}]}
    return named(f"{called}.dryRun", schema_of(handlers.DryRunAnswer, object=shown))
