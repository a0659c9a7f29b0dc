"""Every change with effects in Docker, cut off between any two of its steps.

Steps are commits and calls to Docker. The next leader finds store and docker as they were
left, and has them agree: the change is there in both, record included, or in neither.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from core import keys
from core.errors import ContivError
from netmaster.external.external_effects import DOCKER, ExternalEffects
from netmaster.plan import docker_network
from netmaster.view import View
from objdb.memory import MemoryStore
from tests.property.atomicity import Content, content
from tests.property.subjects import SUBJECTS, Request, Subject
from tests.unit.netmaster import term as terms
from tests.unit.netmaster.fake_docker import FakeDocker
from tests.unit.netmaster.fake_gateway import FakeGateway
from tests.unit.netmaster.term import Term, context_of, load, term

CONCERNED = [subject for subject in SUBJECTS if subject.kind in {"network", "endpointGroup"}]


@dataclass
class World:
    """What outlives a master."""

    store: MemoryStore = field(default_factory=MemoryStore)
    docker: FakeDocker = field(default_factory=FakeDocker)

    def stored(self) -> Content:
        """Return what the store holds, but for which ids docker gave."""
        ids = {key for key in content(self.store) if key.startswith(keys.DOCKNETS)}
        return {key: b"" if key in ids else value for key, value in content(self.store).items()}

    def disagreements(self) -> set[Any]:
        """Return what docker holds and the store does not, or the other way round."""
        view = load(self.store)
        recorded = {
            (_name(view, place), view.docknets[place.id].uuid)
            for place in map(docker_network.identity_of_record, view.docknets.values())
        }
        return (recorded ^ set(self.docker.held.items())) | set(docker_network.pending(view))


def _name(view: View, place: Any) -> str:
    return docker_network.sync_operation(view, place).name


def effects_of(leading: Term, world: World) -> ExternalEffects:
    return ExternalEffects(leading.committer, FakeGateway(), world.docker, mode=DOCKER)


async def ask(leading: Term, world: World, request: Request) -> None:
    """Have a request decided and made, in docker as well."""
    context = context_of(leading, effects_of(leading, world).change)
    await terms.ask(context, request.method, request.path, request.payload)


async def lived(subject: Subject, changes: int) -> World:
    """Lead the subject through the first changes of its life."""
    world = World()
    async with term(world.store) as leading:
        for request in (*subject.before, *subject.life[:changes]):
            await ask(leading, world, request)
    return world


async def steps_of(subject: Subject, change: int) -> tuple[int, int]:
    """Return how many commits a change takes, and how often docker is asked for it."""
    world = await lived(subject, change)
    asked = len(world.docker.calls)
    async with term(world.store) as leading:
        leading.backend.commits.clear()
        await ask(leading, world, subject.life[change])
        return len(leading.backend.commits), len(world.docker.calls) - asked


async def cut_off(subject: Subject, change: int, commits: int, asked: int) -> World:
    """Have a change made up to a number of commits and of questions to docker."""
    world = await lived(subject, change)
    async with term(world.store) as leading:
        leading.backend.last_commit = len(leading.backend.commits) + commits
        world.docker.last_call = len(world.docker.calls) + asked
        with pytest.raises(ContivError):
            await ask(leading, world, subject.life[change])
    world.docker.last_call = None
    return world


@pytest.mark.parametrize("subject", CONCERNED, ids=lambda subject: subject.kind)
async def test_docker_and_store_agree_whenever_a_master_is_gone(subject: Subject) -> None:
    calls = 0
    for change in range(len(subject.life)):
        before = (await lived(subject, change)).stored()
        after = (await lived(subject, change + 1)).stored()
        commits, asked = await steps_of(subject, change)
        calls += asked
        for cut in product(range(commits + 1), range(asked + 1)):
            if cut == (commits, asked):
                continue
            world = await cut_off(subject, change, *cut)
            async with term(world.store) as heir:
                await effects_of(heir, world).repair()
            assert world.disagreements() == set()
            assert world.stored() in (before, after)
    assert calls == 2
