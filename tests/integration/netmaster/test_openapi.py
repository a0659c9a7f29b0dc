"""Requests made up from the OpenAPI document, against a real master on a real store.

Whatever is sent: an answer that the document allows comes in time, it tells of no unforeseen
failure, and a refused request leaves the store as it was.
"""

import time
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from schemathesis import APIOperation, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from core.version import VERSION
from netmaster.api.route_table import document
from netmaster.api.v1.objects import OBJECT_CLASSES
from netmaster.api.v2.examples import EXAMPLES
from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.waiting import WITHIN

pytestmark = pytest.mark.store

STREAM: Final = "/api/v2/events"
"""Its answers do not end (`tests/integration/netmaster/test_events.py`)."""
SCHEMA: Final = schemathesis.openapi.from_dict(document(VERSION)).exclude(path=STREAM)
ALL: Final = [found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)]
SECONDS: Final = 20
"""How long all made-up requests together may take; what does not fit is left out."""
ROUNDS: Final = 4
TRIES: Final = 3
Case = schemathesis.Case[Any]
CHECKS: Final = [content_type_conformance, response_schema_conformance, status_code_conformance]

EXISTING: Final = {
    "tenantName": "default",
    "networkName": "seen",
    "groupName": "group",
    "name": "global",
    "TenantName": "default",
    "NetworkName": "seen",
    "NetworkID": "seen.default",
}
"""Fields that a made-up request may borrow, so as to get past what does not exist."""
SEEDS: Final = (
    ("networks/default:seen", {"networkName": "seen", "encap": "vxlan", "subnet": "10.1.0.0/16"}),
    ("endpointGroups/default:group", {"networkName": "seen", "groupName": "group"}),
)


def test_the_document_is_served_and_valid(store: Store, bed_dir: Path) -> None:
    master = Master(bed_dir, store)
    master.start()
    try:
        answer = master.ask("GET", "/openapi.json")
        assert answer.headers["Content-Type"] == "application/json"
        served = answer.json()
        assert served == document(VERSION)
        validate(served)
    finally:
        master.kill()


def test_every_example_can_be_sent(store: Store, bed_dir: Path) -> None:
    master = Master(bed_dir, store)
    master.start()
    try:
        for plural, example in EXAMPLES.items():
            paths = document(VERSION)["paths"]
            shown = paths[f"/api/v2/{plural}"]["post"]["requestBody"]["content"]
            assert shown["application/json"]["example"] == example
            sent = master.ask("POST", f"/api/v2/{plural}", example)
            assert sent.status == 201 or plural == "globals", sent.text
        assert OBJECT_CLASSES.keys() - EXAMPLES.keys() == {"volumes", "volumeProfiles"}
    finally:
        master.kill()


def test_made_up_requests_break_nothing(store: Store, bed_dir: Path) -> None:
    master = Master(bed_dir, store)
    master.start()
    try:
        for path, body in SEEDS:
            sent = master.ask("POST", f"/api/v1/{path}/", body | {"tenantName": "default"})
            assert sent.status == 200, sent.text
        end = time.monotonic() + SECONDS
        for left, operation in zip(range(len(ALL), 0, -1), ALL, strict=True):
            now = time.monotonic()
            _try(operation, master, store, until=now + (end - now) / left)
        before = _everything(master)
        master.kill()
        assert "internal error" not in master.log_text()
        assert "Traceback" not in master.log_text()
        master.start()
        assert _everything(master) == before
    finally:
        master.kill()


def _try(
    operation: APIOperation[Any, Any, Any, Any], master: Master, store: Store, until: float
) -> None:
    """Send requests for one operation, both such as fit the document and such as do not."""
    modes = [operation.as_strategy(GenerationMode.POSITIVE)]
    if operation.body:
        modes.append(operation.as_strategy(GenerationMode.NEGATIVE))

    @settings(
        max_examples=TRIES,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(modes), borrow=st.booleans(), spell=st.booleans())
    def send(case: Case, borrow: bool, spell: bool) -> None:
        if borrow:
            _borrow(case)
        if spell:
            _spell_key(case)
        before = store.revision()
        answer = case.call(base_url=master.url, timeout=WITHIN)
        assert not answer.content.startswith(b"internal error"), answer.content
        case.validate_response(answer, checks=CHECKS)
        tried = case.query and str(case.query.get("dryRun")).lower() == "true"
        if answer.status_code >= 300 or case.method == "GET" or tried:
            assert store.revision() == before, (case.as_curl_command(), answer.text)

    for _ in range(ROUNDS):
        if time.monotonic() < until:
            send()


def _borrow(case: Case) -> None:
    """Let a request speak of what exists."""
    if isinstance(case.body, dict):
        case.body |= {name: text for name, text in EXISTING.items() if name in case.body}
    elif case.path_parameters:
        case.path_parameters["key"] = "default:seen"


def _spell_key(case: Case) -> None:
    """Make a request's path name the object of its body."""
    kind = OBJECT_CLASSES.get(case.path.split("/")[3]) if case.path.startswith("/api/v") else None
    if kind is None or not isinstance(case.body, dict) or not case.path_parameters:
        return
    fields = kind.model.model_fields
    spelled = [case.body.get(str(fields[name].alias), "") for name in kind.model.key_fields]
    words = [text for text in spelled if isinstance(text, str) and text and "/" not in text]
    if len(words) == len(spelled):
        case.path_parameters["key"] = ":".join(words)


def _everything(master: Master) -> dict[str, list[Any]]:
    """Return all objects, in an order of their own."""
    lists: dict[str, list[Any]] = {}
    for plural in OBJECT_CLASSES:
        found = master.ask("GET", f"/api/v1/{plural}/").json()
        assert isinstance(found, list)
        lists[plural] = sorted(found, key=lambda each: str(each["key"]))
    return lists
