"""Policies through REST on a real store: many rules at once, deletions cut short, what is shown."""

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from contivmodel import wire
from contivmodel.objects import Rule
from core import keys
from netmaster.plan.objects.policy import CHUNK
from objdb.api import Change, Put
from tests.bed.master import Answer, Master
from tests.bed.store import Store, client
from tests.bed.waiting import eventually
from tests.integration.netmaster.conftest import Running

pytestmark = pytest.mark.store

CLIENTS = 16
RULES = 500


def create(master: Master, plural: str, key: str, **fields: Any) -> Answer:
    """Post an object; its tenant is `default`."""
    body = {"tenantName": "default", **fields}
    return master.ask("POST", f"/api/v1/{plural}/{key}/", body)


def add_rule(master: Master, policy: str, rule_id: str, **fields: Any) -> Answer:
    """Post a rule that lets something into the policy's groups."""
    asked = {"policyName": policy, "ruleId": rule_id, "direction": "in", "action": "allow"}
    return create(master, "rules", f"default:{policy}:{rule_id}", **(asked | fields))


def rules_in(store: Store) -> int:
    """Return how many rules the store holds, seen or not."""

    async def count() -> int:
        backend = client(store)
        try:
            return len((await backend.snapshot(keys.RULES)).entries)
        finally:
            await backend.close()

    return asyncio.run(count())


def holds(store: Store, count: int) -> bool:
    """Say whether the store holds that many rules."""
    return rules_in(store) == count


def shown_rules(master: Master) -> list[str]:
    """Return the keys of the rules that a user sees."""
    found = master.ask("GET", "/api/v1/rules/").json()
    assert isinstance(found, list)
    return [rule["key"] for rule in found]


@pytest.fixture
def master(bed_dir: Path, store: Store) -> Iterator[Master]:
    """Run a master on a store of its own."""
    master = Master(bed_dir, store)
    master.start()
    try:
        yield master
    finally:
        master.kill()


def test_rules_posted_by_16_clients_are_all_there(running: Running) -> None:
    assert create(running.master, "policys", "default:many", policyName="many").status == 200
    ids = [str(number) for number in range(RULES)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(lambda one: add_rule(running.master, "many", one), ids))
    assert {answer.status for answer in answers} == {200}
    policy = running.master.ask("GET", "/api/v1/policys/default:many/").json()
    assert isinstance(policy, dict)
    assert set(policy["link-sets"]["Rules"]) == {f"default:many:{one}" for one in ids}
    assert running.master.ask("DELETE", "/api/v1/policys/default:many/").status == 200
    assert not [key for key in shown_rules(running.master) if ":many:" in key]
    assert create(running.master, "policys", "default:many", policyName="many").status == 200
    policy = running.master.ask("GET", "/api/v1/policys/default:many/").json()
    assert isinstance(policy, dict)
    assert policy["link-sets"] == {}


def test_one_of_16_equal_rules_is_accepted(running: Running) -> None:
    create(running.master, "policys", "default:race", policyName="race")
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(lambda _: add_rule(running.master, "race", "1"), range(CLIENTS)))
    texts = sorted(answer.text for answer in answers if answer.status != 200)
    assert texts == ["can not update a rule after its created"] * (CLIENTS - 1)


def test_ofnet_rules_are_shown(running: Running) -> None:
    create(
        running.master,
        "networks",
        "default:shown",
        networkName="shown",
        encap="vxlan",
        subnet="10.77.0.0/24",
    )
    create(running.master, "policys", "default:shownp", policyName="shownp")
    create(
        running.master,
        "endpointGroups",
        "default:showng",
        groupName="showng",
        networkName="shown",
        policies=["shownp"],
    )
    add_rule(running.master, "shownp", "1", protocol="tcp", port=80, fromIpAddress="10.0.0.1-2")
    page = running.master.ask("GET", "/debug/ofnet").json()
    assert isinstance(page, dict)
    prefix = "default:showng:default:shownp:default:shownp:1"
    mine = {key: rule for key, rule in page["PolicyDb"].items() if key.startswith(prefix)}
    assert sorted(mine) == [
        f"{prefix}:{way}:{number}" for way in ("inRx", "inTx") for number in (1, 2)
    ]
    assert mine[f"{prefix}:inRx:1"]["SrcIpAddr"] == "10.0.0.1"
    assert mine[f"{prefix}:inRx:1"]["DstPort"] == mine[f"{prefix}:inTx:1"]["SrcPort"] == 80


def test_the_next_leader_finishes_a_deletion(bed_dir: Path, store: Store) -> None:
    """Start a master on what another leaves that dies right after the first commit."""
    left = [
        Rule(
            key=f"default:p1:{number}",
            tenant_name="default",
            policy_name="p1",
            rule_id=str(number),
            direction="in",
            action="allow",
            priority=1,
        )
        for number in range(3 * CHUNK)
    ]

    async def leave() -> None:
        backend = client(store)
        try:
            for rule in left:
                put = Put(keys.obj(Rule.kind, rule.key), wire.dumps(rule))
                await backend.commit([Change((), (put,))])
        finally:
            await backend.close()

    asyncio.run(leave())
    master = Master(bed_dir, store)
    try:
        master.start()
        assert shown_rules(master) == []
        assert eventually(partial(holds, store, 0), "rules left behind go")
        assert create(master, "policys", "default:p1", policyName="p1").status == 200
        assert add_rule(master, "p1", "1").status == 200
        assert shown_rules(master) == ["default:p1:1"]
    finally:
        master.kill()


def test_a_deletion_that_is_killed_half_way(master: Master, store: Store) -> None:
    """Kill the master at random moments of a deletion: rules and policy go together or stay."""
    dice = random.Random(3)
    for _ in range(5):
        if create(master, "policys", "default:p1", policyName="p1").status == 200:
            with ThreadPoolExecutor(CLIENTS) as clients:
                list(clients.map(lambda one: add_rule(master, "p1", str(one)), range(RULES)))
        deletion = threading.Thread(target=_delete, args=(master,))
        deletion.start()
        threading.Event().wait(dice.uniform(0.0, 0.05))
        master.kill()
        deletion.join()
        master.start()
        exists = master.ask("GET", "/api/v1/policys/default:p1/").status == 200
        kept = RULES if exists else 0
        assert len(shown_rules(master)) == kept
        assert eventually(partial(holds, store, kept), "rules left behind go")


def _delete(master: Master) -> None:
    try:
        master.ask("DELETE", "/api/v1/policys/default:p1/")
    except (OSError, HTTPException):
        return  # the master was killed
