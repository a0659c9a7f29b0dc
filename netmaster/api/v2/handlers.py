"""The handlers of API v2: from a request to a decision, and from its reply to an answer.

`netmaster.api.v2.routes` says which handler answers which route. All classes of objects have the
same ones. `changes` decides, `queries` reads the query; everything is read and committed through
the committer, as in v1.
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from contivmodel.objects import Global, RestObject
from contivmodel.representation import (
    Json,
    etag,
    fields_of,
    names_of_fields,
    parsed,
    read,
    selected,
    shown,
)
from contivmodel.service_objects import Bgp
from core.errors import Malformed, PreconditionFailed
from core.ids import HostLabel
from core.numbers import bounded
from netmaster.api.http import paging
from netmaster.api.http.problems import PREFIX, UnsupportedMedia
from netmaster.api.http.queries import DRY_RUN, is_dry_run, parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.leader import dry_run
from netmaster.api.leader.flow_effects import Effects
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.v1.objects import ObjectClass
from netmaster.api.v2 import changes, idempotency, queries
from netmaster.api.v2.changes import Answer, Decide, Preconditions
from netmaster.api.v2.idempotency import KeyedRequest, Replayed
from netmaster.host_progress import ShownHost
from netmaster.plan.change_log import recorded
from netmaster.plan.show import address_use, change_pages
from netmaster.plan.show.address_use import AddressUse
from netmaster.view import View

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
LONGEST_NUMBER: Final = 18
UNCHECKED: Final = "If-Unmodified-Since"
HOST_FILTERS: Final = ("label", "version", "registered", "applied", "drained")
NETWORK_FILTERS: Final = ("tenantName", "networkName")


class ShownPage(TypedDict):
    """A page of a list."""

    items: Sequence[Mapping[str, Any]]
    next: Annotated[str, Field(description="`after` of the next page; empty at the end")]
    revision: Annotated[
        int, Field(description="a revision of the store that the page is not older than")
    ]


class DryRunAnswer(TypedDict):
    """What a dry run answers."""

    status: int
    key: str
    etag: str
    object: Json | None
    effects: Effects


def filters_of(model: type[RestObject]) -> tuple[str, ...]:
    """Return the fields by which a list of objects can be filtered."""
    return tuple(name for name in fields_of(model) if name != "key")


async def list_objects(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Answer a page of the objects of a class that the client may see."""
    model = kind.model
    wanted = queries.list_query(request.query, fields_of(model), filters_of(model))

    def page(view: View) -> queries.ListPage:
        objects = view.objects[model.kind]
        keys = (key for key, obj in objects.items() if _may_see(request, obj))
        return queries.page(keys, lambda key: shown(objects[key]), wanted)

    return page_reply(leader, await leader.committer.read(page))


async def read_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Answer one object with its ETag; 304 if the client has it."""
    asked = parameters(request.query, queries.FIELDS)
    names = names_of_fields(asked.get("fields", ""), fields_of(kind.model))
    wanted = Preconditions.of(request.headers)
    key = request.parameters["key"]
    stored = await leader.committer.read(lambda view: changes.found(view, kind, key))
    Preconditions(match=wanted.match).check(f"{kind.model.kind} {key}", stored)
    headers = {"ETag": etag(stored)}
    if wanted.is_known(stored):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    answer = json_reply(selected(shown(stored), names))
    answer.headers.update(headers)
    return answer


async def read_state(kind: ObjectClass, leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer the operational state of an object; the host's agent reports that of BGP."""
    parameters(request.query, ())
    key = request.parameters["key"]

    def inspect(view: View) -> Mapping[str, Any]:
        changes.found(view, kind, key)
        return kind.inspect(view, key) if kind.inspect else {}

    state: Mapping[str, Any] = await leader.committer.read(inspect)
    if kind.model is Bgp:
        state = await leader.agents.bgp(key)
    if kind.model is Global:
        state = {"clusterMode": leader.mode, **state}
    return json_reply(state)


async def create_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Create the object that the body is; its key is made of its fields."""
    body = await _body(request, JSON)
    if request.access:
        # Before anything is said about the body: nothing of another tenant is any concern.
        request.access.check(tenant=str(parsed(body).get("tenantName", "")))
    posted = read(kind.model, body)
    wanted = _preconditions(request)
    return await _change(
        kind, leader, request, decide=changes.create(kind, posted, wanted), body=body
    )


async def put_object(kind: ObjectClass, leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Create the object of the path, or replace it where it exists."""
    body = await _body(request, JSON)
    posted = read(kind.model, body, request.parameters["key"])
    wanted = _preconditions(request)
    return await _change(kind, leader, request, decide=changes.put(kind, posted, wanted), body=body)


async def patch_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Change those fields of an object that the body names."""
    body = await _body(request, JSON, MERGE_PATCH)
    wanted = _preconditions(request)
    decide = changes.patch(kind, request.parameters["key"], body, wanted)
    return await _change(kind, leader, request, decide=decide, body=body)


async def delete_object(
    kind: ObjectClass, leader: LeaderContext, request: ApiRequest
) -> web.Response:
    """Delete an object."""
    wanted = _preconditions(request)
    decide = changes.delete(kind, request.parameters["key"], leader.mode, wanted)
    return await _change(kind, leader, request, decide=decide)


async def list_hosts(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of the hosts, with what they have applied and what is wrong with them."""
    wanted = queries.list_query(request.query, ShownHost.__annotations__, HOST_FILTERS)
    hosts = {host["label"]: host for host in await leader.hosts.all()}
    return page_reply(leader, queries.page(hosts, hosts.__getitem__, wanted))


async def read_host(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer one host."""
    parameters(request.query, ())
    return json_reply(await leader.hosts.one(HostLabel(request.parameters["label"])))


async def list_address_use(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of the networks that the client may see, with how full they are."""
    wanted = queries.list_query(request.query, AddressUse.__annotations__, NETWORK_FILTERS)
    tenants = request.access.tenants if request.access else None

    def page(view: View) -> queries.ListPage:
        networks = address_use.keys(view)
        keys = (
            key
            for key, nid in networks.items()
            if tenants is None or view.networks[nid].tenant in tenants
        )
        return queries.page(keys, lambda key: address_use.shown(view, networks[key]), wanted)

    return page_reply(leader, await leader.committer.read(page))


async def list_changes(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer a page of the last changes, the newest first, that the client may see."""
    asked = parameters(request.query, {*change_pages.FILTERS, *paging.PAGED})
    after = asked.get("after", "")
    below = bounded(after or "0", 0, 10**LONGEST_NUMBER - 1)
    if below is None:
        raise Malformed(f"parameter after={after[:80]} is not `next` of a page")
    wanted = change_pages.ChangeQuery(
        kind=asked.get("kind", ""),
        tenant=asked.get("tenantName", ""),
        who=asked.get("who", ""),
        limit=paging.limit(asked["limit"]) if "limit" in asked else paging.LIMIT,
        below=below,
        tenants=request.access.tenants if request.access else None,
    )

    def page(view: View) -> queries.ListPage:
        return queries.ListPage(*change_pages.page(view, wanted))

    return page_reply(leader, await leader.committer.read(page))


async def _change(
    kind: ObjectClass,
    leader: LeaderContext,
    request: ApiRequest,
    *,
    decide: Decide,
    body: bytes = b"",
) -> web.Response:
    """Make a change, once for each idempotency key, or a dry run of it."""
    decide = request.allowed(decide)
    if is_dry_run(parameters(request.query, {DRY_RUN})):
        return json_reply(await _dry_run(decide, leader))
    keyed = _keyed(request, body)
    if keyed is not None:
        decide = idempotency.once(decide, keyed, leader.now())
    reply = await leader.effects.change(recorded(decide, request.origin, leader.now()))
    match reply:
        case Replayed(answer):
            again = _answer(kind, answer)
            again.headers[idempotency.REPLAYED] = "true"
            return again
        case Answer():
            return _answer(kind, reply)
        case _:
            raise TypeError(f"a change replied {reply!r}")


async def _dry_run(decide: Decide, leader: LeaderContext) -> DryRunAnswer:
    answer, found = await dry_run.preview(decide, leader)
    if not isinstance(answer, Answer):
        raise TypeError(f"a change replied {answer!r}")
    return {
        "status": int(answer.status),
        "key": answer.key,
        "etag": answer.etag,
        "object": json.loads(answer.body) if answer.body else None,
        "effects": found,
    }


def _answer(kind: ObjectClass, answer: Answer) -> web.Response:
    headers = {"ETag": answer.etag} if answer.etag else {}
    if answer.status == HTTPStatus.CREATED:
        headers["Location"] = f"{PREFIX}{kind.model.plural}/{quote(answer.key, safe=':')}"
    if answer.body:
        headers["Content-Type"] = JSON
    text = f"{answer.body}\n" if answer.body else None
    return web.Response(status=answer.status, body=text.encode() if text else None, headers=headers)


def page_reply(leader: LeaderContext, page: queries.ListPage) -> web.Response:
    """Return the answer that a page of a list is."""
    shown: ShownPage = {
        "items": page.items,
        "next": page.next,
        "revision": leader.committer.revision,
    }
    return json_reply(shown)


def _may_see(request: ApiRequest, obj: RestObject) -> bool:
    tenants = request.access.tenants if request.access else None
    return tenants is None or getattr(obj, "tenant_name", None) in tenants


def _preconditions(request: ApiRequest) -> Preconditions:
    if UNCHECKED in request.headers:
        raise PreconditionFailed(f"the header {UNCHECKED} is not supported; nothing was changed")
    return Preconditions.of(request.headers)


def _keyed(request: ApiRequest, body: bytes) -> KeyedRequest | None:
    key = request.headers.get(idempotency.HEADER)
    if key is None:
        return None
    who = str(request.access.who) if request.access and request.access.who else ""
    tags = (request.headers.get(name, "") for name in ("If-Match", "If-None-Match"))
    asked = " ".join((request.method, request.path, *tags))
    return KeyedRequest.of(key, who, asked, body)


async def _body(request: ApiRequest, *types: str) -> bytes:
    media = request.content_type.partition(";")[0].strip().lower()
    if media not in types:
        raise UnsupportedMedia(f"Content-Type {media or 'is missing'}: want {' or '.join(types)}")
    return await request.body()
