"""Answers `GET /api/v2/diagnosis`: one archive of what all masters and hosts say of themselves.

Each daemon gives texts by name (`daemons.diagnosis_parts`): the agents by
`netplugin.diagnostics.diagnosis`, other masters by `own_route`. For a daemon that does not answer
there is a file with the reason. The archive is a `tar.gz`; its size is bounded, whatever the number
of hosts: each has a share of the whole.
"""

import asyncio
import io
import re
import tarfile
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field, TypeAdapter

from contivmodel.schema import BINARY
from contivmodel.wire import dumps
from core import keys
from core.errors import AgentUnavailable
from core.patience import patient
from daemons.certificates.peers import PeerIdentity
from daemons.diagnosis_parts import MOST, Part, as_json, collect, redacted
from netmaster import agent_answers
from netmaster.agent_answers import Name
from netmaster.api.http.access import AccessControl
from netmaster.api.http.routes import OperationDoc
from netmaster.api.http.server import Role
from netmaster.api.leader.agents import Answers
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.auth.forwarding import forwarded
from netmaster.auth.roles import Identity
from netmaster.plan import change_log
from netmaster.plan.show import change_pages
from netmaster.view import View
from objdb.api import Backend

PATH: Final = "/api/v2/diagnosis"
OWN: Final = "/diagnosis"
"""What every master answers for itself, whatever its role."""
ASKED: Final = "/inspect/diagnosis"
MEDIA: Final = "application/gzip"
WHOLE: Final = 64 << 20
"""Bytes of all texts in an archive."""
MOST_FILES: Final = 100
"""Texts of one daemon."""
SECONDS: Final = patient(15.0)
"""Seconds that each daemon has to answer."""
COUNTED: Final = (
    *(keys.OBJECTS, keys.NETWORKS, keys.ENDPOINTS, keys.GROUPS, keys.SERVICE_LBS, keys.BGPS),
    *(keys.MASTER_CONFIG, keys.CLEANUPS, keys.ABSENCES, keys.DRAINS, keys.GRANTS, keys.HOSTS),
    *(keys.SERVICES, keys.COMMITS, keys.LOCKS),
)
"""Prefixes of the store whose keys are counted; accounts are none of them."""
OPERATION: Final = OperationDoc(summary="diagnosis", tag="debug", answer=BINARY, media=MEDIA)

_ESCAPED: Final = 6
"""How much longer a text may be as JSON: a control character takes six."""
_TEXTS: Final = TypeAdapter[dict[str, str]](
    Annotated[dict[Name, Annotated[str, Field(strict=True)]], Field(max_length=MOST_FILES)]
)
_UNSAFE: Final = re.compile(r"[^\w.:@-]+")


async def answer(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer an archive of all daemons' texts."""
    await leader.committer.read(_nothing)  # for a leader alone, before everybody is asked
    who = request.access.who if request.access else None
    share = min(WHOLE // (await leader.agents.count() + 1), MOST)
    agents, masters, own = await asyncio.gather(
        leader.agents.ask_all(f"{ASKED}?bytes={share}", seconds=SECONDS, most=_ESCAPED * share),
        leader.agents.ask_masters(OWN, _on_behalf_of(who), seconds=SECONDS),
        collect(
            {
                "hosts.json": partial(_hosts, leader),
                "changes.json": partial(_changes, leader),
            }
        ),
    )
    files = {
        **{f"cluster/{name}": text for name, text in own.items()},
        **_files("masters", masters),
        **_files("hosts", agents),
    }
    body = await asyncio.to_thread(archive, files)
    await leader.committer.read(_nothing)
    headers = {
        "Content-Type": MEDIA,
        "Content-Disposition": 'attachment; filename="contiv-diagnosis.tar.gz"',
    }
    return web.Response(body=body, headers=headers)


def own_route(parts: Mapping[str, Part], access: AccessControl | None) -> Role:
    """Return what answers `OWN` from these parts; `access` is None without TLS."""
    one_at_a_time = asyncio.Lock()

    async def tell(request: web.BaseRequest) -> web.StreamResponse:
        if access is not None:
            await access.admit(request, OWN, {})
        async with one_at_a_time:
            texts = await collect(parts)
        return web.Response(body=dumps(texts), content_type="application/json")

    return tell


async def key_counts(backend: Backend) -> str:
    """Return how many keys the store has under each prefix."""
    counts = {prefix: len((await backend.snapshot(prefix)).entries) for prefix in COUNTED}
    return as_json(counts)


def archive(files: Mapping[str, str]) -> bytes:
    """Return files by name as a compressed archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=6) as tar:
        for name, text in sorted(files.items()):
            data = text.encode()
            member = tarfile.TarInfo(f"contiv-diagnosis/{name}")
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def _files(where: str, answers: Answers) -> dict[str, str]:
    """Return the files of all daemons of a kind; who did not answer has a file that says so."""
    files = {}
    for daemon, body in answers.replies.items():
        for name, text in _texts(daemon, body).items():
            files[f"{where}/{_safe(daemon)}/{_safe(name)}"] = text
    for daemon, why in answers.unreachable.items():
        files[f"{where}/{_safe(daemon)}/no-answer.txt"] = redacted(f"{why}\n")
    return files


def _texts(daemon: str, body: bytes) -> dict[str, str]:
    try:
        found = agent_answers.read(daemon, "an object of texts", body, _TEXTS)
    except AgentUnavailable as exc:
        return {"no-answer.txt": redacted(f"{exc}\n")}
    # The texts were cleared by who wrote them; an older release may clear less.
    return {name: redacted(text) for name, text in found.items()}


def _safe(name: str) -> str:
    """Return a name that stays one part of a path."""
    return _UNSAFE.sub("_", name).lstrip(".") or "_"


def _on_behalf_of(who: Identity | None) -> str:
    return forwarded(None if who is None else PeerIdentity(who.role, who.name))


async def _changes(leader: LeaderContext) -> str:
    everything = change_pages.ChangeQuery(limit=change_log.KEPT)
    changes, _ = await leader.committer.read(lambda view: change_pages.page(view, everything))
    return as_json(changes)


async def _hosts(leader: LeaderContext) -> str:
    return as_json(await leader.hosts.all())


def _nothing(_view: View) -> None:
    """Read nothing: what is asked is whether this master leads."""
