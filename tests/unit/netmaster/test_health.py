"""What makes a master ready: the store, and that somebody leads."""

import json
from http import HTTPStatus

from core import keys
from daemons.health import READYZ, Health
from netmaster import health
from objdb.memory.backend import MemoryBackend


async def test_a_master_is_ready_while_somebody_leads() -> None:
    backend = MemoryBackend()
    ready = Health(health.checks(backend))
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
