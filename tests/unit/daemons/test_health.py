"""`/healthz` and `/readyz` of both daemons: a status, and why a daemon is not ready."""

import asyncio
import json
from http import HTTPStatus

from core.errors import StoreUnavailable
from daemons.health import HEALTHZ, READYZ, Health


async def works() -> None:
    """Nothing is wrong."""


async def fails() -> None:
    raise StoreUnavailable("the store does not answer: start it")


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_daemon_is_ready_if_all_its_checks_pass() -> None:
    status, text = await Health({"store": works, "leader": works}).answer(READYZ)
    assert status is HTTPStatus.OK
    assert json.loads(text) == {"ready": True, "checks": {"store": "ok", "leader": "ok"}}


async def test_what_is_wrong_besides_is_named_and_keeps_nothing_from_being_ready() -> None:
    status, text = await Health({"store": works}, faults=lambda: ["rules not set"]).answer(READYZ)
    assert status is HTTPStatus.OK
    assert json.loads(text) == {
        "ready": True,
        "checks": {"store": "ok"},
        "faults": ["rules not set"],
    }


async def test_the_answer_names_each_reason() -> None:
    health = Health({"store": fails, "leader": hangs, "switch": works}, limit=0.01)
    status, text = await health.answer(READYZ)
    assert status is HTTPStatus.SERVICE_UNAVAILABLE
    assert json.loads(text) == {
        "ready": False,
        "checks": {
            "store": "the store does not answer: start it",
            "leader": "no answer within 0.01 s",
            "switch": "ok",
        },
    }


async def test_a_daemon_that_is_not_ready_is_healthy() -> None:
    status, text = await Health({"store": fails}).answer(HEALTHZ)
    assert status is HTTPStatus.OK
    assert json.loads(text) == {"healthy": True}


async def test_checks_may_change() -> None:
    health = Health({"start": fails})
    health.checks = {"store": works}
    assert (await health.answer(READYZ)).status is HTTPStatus.OK


async def test_what_is_known_is_looked_at_when_the_others_have_answered() -> None:
    told: list[str] = []

    async def slow() -> None:
        await asyncio.sleep(0.01)
        told.append("the disk is full")

    async def disk() -> None:
        if told:
            raise StoreUnavailable(told[0])

    health = Health({"disk": disk, "store": slow}, known={"disk"})
    _, text = await health.answer(READYZ)
    assert json.loads(text)["checks"] == {"disk": "the disk is full", "store": "ok"}
