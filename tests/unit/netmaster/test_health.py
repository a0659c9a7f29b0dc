"""What makes a master ready: the store, and that somebody leads."""

import json
import logging
from http import HTTPStatus

from core import keys
from core.errors import HostError, StoreUnavailable
from core.retry import Loop, Loops
from daemons.health import READYZ, Health
from netmaster import health
from objdb.memory.backend import MemoryBackend


async def test_a_master_is_ready_while_somebody_leads() -> None:
    backend = MemoryBackend()
    ready = Health(health.checks(backend, Loops()))
    status, text = await ready.answer(READYZ)
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    checks = json.loads(text)["checks"]
    assert checks["store"] == "ok"
    assert "no netmaster leads" in checks["leader"]
    lock = backend.lock(keys.LEADER_LOCK, "192.0.2.1:9999", 2.0)
    await lock.acquire()
    assert (await ready.answer(READYZ)).status is HTTPStatus.OK
    await lock.release()
    assert (await ready.answer(READYZ)).status is HTTPStatus.SERVICE_UNAVAILABLE


async def test_what_fails_is_named_and_what_is_vital_is_missing() -> None:
    backend, loops = MemoryBackend(), Loops()
    await backend.lock(keys.LEADER_LOCK, "192.0.2.1:9999", 2.0).acquire()
    ready = Health(health.checks(backend, loops), faults=loops.names)
    log = logging.getLogger(__name__)
    Loop(log, "addresses not read", loops=loops).failed(HostError("no secret"))
    status, text = await ready.answer(READYZ)
    assert status is HTTPStatus.OK
    assert json.loads(text)["faults"] == ["addresses not read"]
    assert "secret" not in text, "anybody may ask"
    vital = Loop(log, "view rebuild failed", vital=True, loops=loops)
    vital.failed(StoreUnavailable("no answer"))
    status, text = await ready.answer(READYZ)
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert json.loads(text)["checks"]["loops"] == "view rebuild failed: no answer"
    vital.succeeded()
    assert (await ready.answer(READYZ)).status is HTTPStatus.OK
