"""Clients that get and give back addresses, and keep a history of what they were told.

In come the masters' URLs and a namespace; out comes a `History`. All clients live in one event
loop, in a thread of its own inside the namespace, so that a test can do harm meanwhile. A client
whose request failed goes on to another master, and asks nothing more of it before it is led.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Final, Self

from core.errors import ContivError
from core.ids import HostLabel
from core.tasks import background
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually
from tests.system.faults.history import (
    Done,
    History,
    NotDone,
    Outcome,
    Unknown,
    Verb,
    outcome_of,
)
from tests.system.faults.holders import Holder
from tests.system.faults.web import Ahead, Web

AT_MOST: Final = 3
"""How much a client holds on each network."""
HOLDERS: Final = 5
"""How many hosts hold addresses ahead, if any do."""
THINKS: Final = 0.2
"""Seconds, at most, between two things a client does."""


@dataclass(frozen=True, slots=True)
class Held:
    """An endpoint, or a reservation, and its address once it is known."""

    network: str
    name: str
    is_endpoint: bool
    address: str = ""
    token: str = ""
    """Of an endpoint that no master knows yet: its host gave the address."""


class Client:
    """One client; all of them share the history and the connections."""

    def __init__(
        self,
        name: str,
        masters: Sequence[str],
        history: History,
        *,
        web: Web,
        chance: Random,
        holder: Holder | None,
    ) -> None:
        self.name = name
        self._holder = holder
        self._masters = masters
        self._history = history
        self._web = web
        self._chance = chance
        self._master = chance.choice(masters)
        # of one length, for a part of a name may stand for it in an inspection
        self._names = (f"{number:05d}.{name}" for number in count())
        self._held: list[Held] = []

    async def run(self, networks: Sequence[str], over: threading.Event) -> None:
        """Get and give back until told to end; then look at all that is held."""
        while not over.is_set():
            await asyncio.sleep(self._chance.uniform(0, THINKS))
            network = self._chance.choice(networks)
            held = [one for one in self._held if one.network == network]
            if not held or (len(held) < AT_MOST and self._chance.random() < 0.5):
                await self._get(network)
            elif self._chance.random() < 0.3:
                await self._look(self._chance.choice(held))
            else:
                await self._give_back(self._chance.choice(held))
        for one in [*self._held]:
            await self._look(await self._reported(one))

    async def _get(self, network: str) -> None:
        wanted = Held(network, next(self._names), is_endpoint=self._chance.random() < 0.6)
        if wanted.is_endpoint and self._get_ahead(wanted):
            return
        if wanted.is_endpoint:
            outcome = await self._until_known(Verb.CREATE, wanted)
        else:
            outcome = await self._ask(Verb.ALLOCATE, wanted)
        if isinstance(outcome, Done):
            self._held.append(
                Held(network, wanted.name, wanted.is_endpoint, address=outcome.address)
            )

    def _get_ahead(self, wanted: Held) -> bool:
        given = self._holder.give(wanted.network, wanted.name) if self._holder else None
        if given is None:
            return False
        operation = self._history.invoke(Verb.CREATE, self.name, wanted.network, wanted.name)
        operation.ahead = True
        self._history.end(operation, Done(given.ipv4))
        self._held.append(replace(wanted, address=given.ipv4, token=given.token))
        return True

    async def _reported(self, held: Held) -> Held:
        """Have a master create an endpoint whose host gave the address."""
        if not held.token:
            return held
        await self._until_known(Verb.REPORT, held)
        known = replace(held, token="")
        self._held[self._held.index(held)] = known
        return known

    async def _look(self, held: Held) -> None:
        held = await self._reported(held)
        if held.is_endpoint:
            await self._ask(Verb.LOOK, held)

    async def _give_back(self, held: Held) -> None:
        if self._chance.random() < 0.7:
            held = await self._reported(held)
        self._held.remove(held)
        if held.is_endpoint:
            await self._until_known(Verb.DELETE, held)
            if self._holder:
                self._holder.ended(held.name)
        else:
            while isinstance(await self._ask(Verb.RELEASE, held), NotDone):
                pass

    async def _until_known(self, verb: Verb, held: Held) -> Outcome:
        """Ask until the outcome is known; a create that was surely not done is given up."""
        may_be_done = False
        while True:
            outcome = await self._ask(verb, held)
            if isinstance(outcome, Unknown):
                may_be_done = True
            elif not isinstance(outcome, NotDone) or (verb is Verb.CREATE and not may_be_done):
                return outcome

    async def _ask(self, verb: Verb, held: Held) -> Outcome:
        """Send one request; a master that cannot be reached at all costs nothing."""
        operation = self._history.invoke(verb, self.name, held.network, held.name)
        outcome: Outcome | None = None
        while outcome is None:
            try:
                outcome = Done(await self._send(verb, held))
            except ContivError as exc:
                outcome = outcome_of(exc)
            if not isinstance(outcome, Done):
                await self._go_on()
        self._history.end(operation, outcome)
        return outcome

    async def _send(self, verb: Verb, held: Held) -> str:
        if verb is Verb.REPORT and self._holder is not None:
            host = self._holder.label
            ahead = Ahead(held.network, self.name, held.name, host, held.address, held.token)
            return await self._web.report(self._master, ahead)
        return await self._web.ask(
            self._master,
            verb,
            network=held.network,
            client=self.name,
            name=held.name,
            address=held.address,
        )

    async def _go_on(self) -> None:
        """Choose a master that is led."""
        while True:
            self._master = self._chance.choice(self._masters)
            if await self._web.is_led(self._master):
                return
            await asyncio.sleep(self._chance.uniform(0, THINKS))


class Crowd:
    """Many clients at work in a namespace, and their history.

    With `blocks` some hosts hold so many addresses of each network ahead of their endpoints.

    At the end of the context they are cancelled, whatever they wait for: their thread would keep
    the interpreter from its exit.
    """

    def __init__(
        self,
        namespace: Namespace,
        masters: Sequence[str],
        networks: Sequence[str],
        chance: Random,
        *,
        blocks: int = 0,
    ) -> None:
        self._blocks = blocks
        self.history = History()
        self.given_ahead = 0
        self._namespace = namespace
        self._masters = masters
        self._networks = networks
        self._chance = chance
        self._over = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._work: Future[None] | None = None
        self._cancel: Future[Callable[[], object]] = Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._work is not None and not self._work.done():
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._cancel.result()()
        self._thread.shutdown()

    def start(self, names: Sequence[str]) -> None:
        """Let clients with these names begin."""
        chances = [Random(self._chance.random()) for _ in names]
        live = self._live(dict(zip(names, chances, strict=True)))
        self._work = self._thread.submit(self._namespace.call, lambda: asyncio.run(live))

    @property
    def asked(self) -> int:
        """How many requests were sent until now."""
        return len(self.history.operations)

    @property
    def done(self) -> int:
        """How many requests were acknowledged until now; raises what a client died of."""
        if self._work is not None and self._work.done():
            self._work.result()
        return self.history.done

    def work(self, count: int, *, within: float) -> None:
        """Wait until so many more requests are acknowledged."""
        enough = self.done + count
        eventually(lambda: self.done >= enough, f"{count} requests acknowledged", within=within)

    def finish(self, *, within: float) -> History:
        """Have the clients end, and return what they were told."""
        self._over.set()
        if self._work is not None:
            self._work.result(within)
        return self.history

    async def _live(self, clients: dict[str, Random]) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        async with Web() as web, AsyncExitStack() as renewing:
            holders: list[Holder | None] = [None]
            if self._blocks:
                made = [
                    Holder(
                        HostLabel(f"holder{number}"),
                        self._blocks,
                        self._masters,
                        web,
                        Random(self._chance.random()),
                    )
                    for number in range(HOLDERS)
                ]
                for holder in made:
                    await renewing.enter_async_context(background("renewal", holder.run()))
                holders = [*made]
            async with asyncio.TaskGroup() as group:
                for number, (name, chance) in enumerate(clients.items()):
                    holder_of = holders[number % len(holders)]
                    client = Client(
                        name,
                        self._masters,
                        self.history,
                        web=web,
                        chance=chance,
                        holder=holder_of,
                    )
                    group.create_task(client.run(self._networks, self._over))
            await renewing.aclose()
            for one in filter(None, holders):
                await one.give_back()
                self.given_ahead += one.given
