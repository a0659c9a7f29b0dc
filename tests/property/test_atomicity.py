"""Every change of every kind, cut off before and after each of its store calls.

The store then holds what it held before that call or what it holds after it, and the next leader
reads it and brings a change that was begun to its end.
"""

from dataclasses import dataclass

import pytest

from core.errors import StoreUnavailable
from netmaster.api.v1 import objects
from netmaster.plan.objects import netprofile, policy
from objdb.memory import Faults, MemoryStore
from objdb.memory.faults import LostAnswer
from tests.property.atomicity import Content, content
from tests.property.subjects import ALONE, LARGE, NEVER_STORED, SUBJECTS, Request, Subject
from tests.unit.netmaster import term as terms
from tests.unit.netmaster.term import Term, context_of, load, term

PERIODIC = (netprofile.sync_groups, policy.sweep)
"""What a leader does by itself for changes that take more than one transaction."""


@dataclass(frozen=True)
class Undisturbed:
    """What the store held before and after every change, and how many commits each took."""

    contents: list[Content]
    commits: list[int]


async def ask(leading: Term, request: Request) -> None:
    """Have a request decided and committed."""
    await terms.ask(context_of(leading), request.method, request.path, request.payload)


async def undisturbed(subject: Subject) -> Undisturbed:
    """Lead the subject through its life."""
    store = MemoryStore()
    async with term(store) as leading:
        for request in subject.before:
            await ask(leading, request)
        contents, commits = [content(store)], []
        for request in subject.life:
            leading.backend.commits.clear()
            await ask(leading, request)
            contents.append(content(store))
            commits.append(len(leading.backend.commits))
    return Undisturbed(contents, commits)


async def cut_off(subject: Subject, change: int, call: int, what: LostAnswer) -> MemoryStore:
    """Lead up to a change and be gone at one of its commits; return what is left."""
    store, faults = MemoryStore(), Faults()
    async with term(store, faults) as leading:
        for request in (*subject.before, *subject.life[:change]):
            await ask(leading, request)
        faults.lost_answers.extend([*[LostAnswer.DELIVERED] * call, what])
        with pytest.raises(StoreUnavailable):
            await ask(leading, subject.life[change])
    return store


@pytest.mark.parametrize("subject", [*SUBJECTS, *LARGE, *ALONE], ids=lambda subject: subject.kind)
async def test_a_change_that_is_cut_off_is_there_whole_or_not_at_all(subject: Subject) -> None:
    full = await undisturbed(subject)
    for change, commits in enumerate(full.commits):
        before, after = full.contents[change], full.contents[change + 1]
        assert commits > 0, subject.life[change]
        seen: list[Content] = [before]
        for call in range(commits):
            store = await cut_off(subject, change, call, LostAnswer.NOT_APPLIED)
            assert content(store) == seen[-1]
            store = await cut_off(subject, change, call, LostAnswer.APPLIED)
            seen.append(content(store))
            load(store)
            async with term(store) as heir:
                for decide in PERIODIC:
                    while await heir.committer.submit(decide):
                        pass
            assert content(store) == after
        assert seen[-1] == after


@pytest.mark.parametrize("subject", LARGE, ids=lambda subject: subject.kind)
async def test_large_changes_take_more_than_one_commit(subject: Subject) -> None:
    assert (await undisturbed(subject)).commits[0] > 2


def test_every_kind_has_its_entry() -> None:
    assert {kind.model.kind for kind in objects.OBJECT_CLASSES.values()} == {
        subject.kind for subject in SUBJECTS if subject.kind not in {"endpoint", "address"}
    } | {subject.kind for subject in NEVER_STORED}
