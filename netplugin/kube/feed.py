"""Follows resources of the Kubernetes API, and hands their objects to those who need them.

In come lists and changes (`netplugin.kube.api`), and at the start what an earlier agent had saved
(`netplugin.kube.cache`); out they go to a `KubeHandler` for each resource, such as
`netplugin.kube.services` and `netplugin.kube.pods`. An invalid object is reported and its last
valid state stays in force. While no API server can be reached, everything stays as it was, also
across a restart of the agent: only the server can say that something is gone.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from core.change_notifier import ChangeNotifier
from core.errors import HostError, Invalid, OrchestratorUnavailable
from core.logs import fields
from core.retry import Loop, retry
from core.tasks import attempt
from netplugin.kube.api import KubeApi, KubeChange, KubeEvent, KubeList, KubeSign
from netplugin.kube.cache import KubeCache
from netplugin.kube.resources import Resource
from netplugin.world.kubernetes.kube_objects import KubeObject, key_of

log = logging.getLogger(__name__)

STEP: Final = 50
"""Objects of a list that are applied at once: a slice may have a thousand endpoints."""

GRACE: Final = 60.0
"""Seconds after which a server that is away is a fault of this host: servers are restarted."""

CHECK: Final = 5.0
"""Seconds between two looks at how old the faults are."""


class KubeHandler(Protocol):
    """Takes the objects of one or several resources."""

    def put(self, resource: str, received: KubeObject) -> None:
        """Add or replace an object. Raises Invalid, changing nothing, if it cannot be read."""

    def remove(self, resource: str, key: str) -> None:
        """Remove an object, which may be unknown."""

    def retain(self, resource: str, keys: Container[str]) -> None:
        """Remove the objects of a resource whose keys are not among these."""


class FanOut:
    """A `KubeHandler` that passes each call on to several handlers."""

    def __init__(self, handlers: Iterable[KubeHandler]) -> None:
        self._handlers = tuple(handlers)

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        for handler in self._handlers:
            handler.put(resource, received)

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        for handler in self._handlers:
            handler.remove(resource, key)

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        for handler in self._handlers:
            handler.retain(resource, keys)


@dataclass(slots=True)
class _State:
    """What is known of one resource and its watch. Times are those of the feed's clock."""

    known: bool = False
    listed: bool = False
    version: str = ""
    unsaved: bool = False
    changed: set[str] = field(default_factory=set)
    """The keys of objects that are not as the cache has them."""

    connected: float | None = None
    heard: float | None = None
    fault: str = ""
    faulty: float | None = None
    lines: dict[str, bytes] = field(default_factory=dict)
    """The objects by key, as the cache has them."""

    invalid: dict[str, str] = field(default_factory=dict)
    """What is wrong with objects that cannot be read, by key."""


class KubeFeed:
    """The feed of one agent; `followed` is the table of resources and of who takes their objects.

    `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        cache: KubeCache,
        followed: Mapping[Resource, KubeHandler],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._cache = cache
        self._followed = followed
        self._clock = clock
        self._states = {one.name: _State() for root in followed for one in root.alternatives()}
        self._changed = ChangeNotifier()
        self._to_save = asyncio.Event()
        self._saving = Loop(
            log,
            "Kubernetes cache not written",
            errors=HostError,
            remedy="an agent that starts without a server knows no services",
        )

    # -- what is known ---------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """True once every resource was listed, now or by an earlier agent: absence means gone."""
        return self.knows(*self._followed)

    def knows(self, *roots: Resource) -> bool:
        """Return whether all of these resources, or what is followed instead, were listed."""
        return all(
            any(self._states[one.name].known for one in root.alternatives()) for root in roots
        )

    async def listed(self, within: float, *roots: Resource) -> bool:
        """Wait up to `within` seconds until these resources are known; return whether they are."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.until_known(*roots)
        return self.knows(*roots)

    async def until_known(self, *roots: Resource) -> None:
        """Return when these resources are known."""
        while not self.knows(*roots):
            await self._changed.next.wait()

    def notify(self) -> None:
        """Have faults shown anew: a complaint came or went."""
        self._changed.notify()

    def changed(self) -> asyncio.Event:
        """Return the event of the next change: take it, read the state, then wait for it."""
        return self._changed.next

    def faults(self, grace: float = 0.0) -> list[str]:
        """Return the faults that have lasted for `grace` seconds, one for each text."""
        now = self._clock()
        old = [
            state.fault
            for state in self._states.values()
            if state.fault and state.faulty is not None and now - state.faulty >= grace
        ]
        return [f"Kubernetes: {one}" for one in dict.fromkeys(old)]

    def _invalid(self) -> Iterator[str]:
        """Yield what is wrong with objects whose earlier state, or none, is in force."""
        for state in self._states.values():
            yield from state.invalid.values()

    async def ready(self) -> None:
        """Raise OrchestratorUnavailable unless all is listed and watches are fresh."""
        if faults := self.faults(GRACE if self.complete else 0.0):
            raise OrchestratorUnavailable("; ".join(faults))
        if not self.complete:
            raise OrchestratorUnavailable("Kubernetes has not listed all resources yet")

    def report(self) -> dict[str, Any]:
        """Return the state of each resource's watch, ages in seconds, for inspections."""
        return {
            "complete": self.complete,
            "resources": {name: self._report(one) for name, one in self._states.items()},
        }

    def _report(self, state: _State) -> dict[str, Any]:
        now = self._clock()

        def age(moment: float | None) -> float | None:
            return None if moment is None else round(now - moment, 1)

        return {
            "objects": len(state.lines),
            "listed": state.listed,
            "fromCache": state.known and not state.listed,
            "version": state.version,
            "connectedSeconds": age(state.connected),
            "lastEventSeconds": age(state.heard),
            "fault": state.fault,
        }

    # -- running ---------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Apply what an earlier agent saved; once, before `run`."""
        for root, handler in self._followed.items():
            for one in root.alternatives():
                cached = await asyncio.to_thread(self._cache.load, one.name)
                if cached is not None:
                    state = self._states[one.name]
                    state.known, state.version = True, cached.version
                    for _ in self._put_all(one, handler, cached.objects):
                        await asyncio.sleep(0)
                    state.changed.clear()
        log.info("Kubernetes cache read", extra=fields(count=sum(self._counts())))
        self._changed.notify()

    async def run(self) -> None:
        """Follow all resources and save what they say, for ever."""
        async with asyncio.TaskGroup() as group:
            for root in self._followed:
                group.create_task(self._follow(root), name=f"kubernetes {root.name}")
            group.create_task(self._save_changes(), name="kubernetes cache")

    async def report_faults(
        self,
        show: Callable[[Iterable[str]], None],
        complaints: Callable[[], Iterable[str]] = tuple,
        grace: float = GRACE,
    ) -> None:
        """Show the faults that have lasted for a while, and their end, for ever.

        Beside them stand, at once, the objects that cannot be read, and `complaints` about others;
        these do not make the agent unready.
        """
        while True:
            changed = self._changed.next
            about = [*self._invalid(), *complaints()]
            show([*self.faults(grace), *(f"Kubernetes: {one}" for one in about)])
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK):
                    await changed.wait()

    async def _follow(self, root: Resource) -> None:
        known = next(
            (v for one in root.alternatives() if (v := self._states[one.name].version)), ""
        )
        async for event in self._api.follow(root, known or "0"):
            for _ in self._steps(root, event):
                await asyncio.sleep(0)

    def apply(self, root: Resource, event: KubeEvent) -> None:
        """Apply an event of a resource of the table, or of what is followed instead of it."""
        for _ in self._steps(root, event):
            pass

    def _steps(self, root: Resource, event: KubeEvent) -> Iterator[None]:
        """Apply an event, in steps between which the agent does its other work."""
        handler = self._followed[root]
        match event:
            case KubeSign():
                self._note(root, event)
            case KubeList(resource, version, objects):
                yield from self._replace(resource, handler, objects)
                for other in root.alternatives():
                    if other is not resource:
                        self._forget(other, handler)
                # Last: what is saved or taken for complete meanwhile is what was known before.
                self._states[resource.name].known = self._states[resource.name].listed = True
                self._heard(resource, version)
            case KubeChange(resource, version, received, deleted):
                self._heard(resource, version)
                if deleted:
                    self._remove(resource, handler, key_of(received))
                else:
                    self._put(resource, handler, received)
        self._changed.notify()

    # -- objects ---------------------------------------------------------------------------------

    def _replace(
        self, resource: Resource, handler: KubeHandler, objects: Collection[KubeObject]
    ) -> Iterator[None]:
        # Only a list shows deletions that happened while there was no watch.
        keys = {key_of(one) for one in objects}
        state = self._states[resource.name]
        handler.retain(resource.name, keys)
        state.changed.update(key for key in state.lines if key not in keys)
        state.lines = {key: line for key, line in state.lines.items() if key in keys}
        state.invalid = {key: text for key, text in state.invalid.items() if key in keys}
        yield from self._put_all(resource, handler, objects)

    def _put_all(
        self, resource: Resource, handler: KubeHandler, objects: Iterable[KubeObject]
    ) -> Iterator[None]:
        for number, one in enumerate(objects, start=1):
            self._put(resource, handler, one)
            if number % STEP == 0:
                yield

    def _put(self, resource: Resource, handler: KubeHandler, received: KubeObject) -> None:
        """Apply one object; whatever is wrong with it must not cost the others."""

        def not_understood(exc: Exception) -> None:
            log.error(
                "Kubernetes object not understood",
                exc_info=exc,
                extra=fields(object=f"{resource.name} {key_of(received)}", error=repr(exc)),
            )

        attempt(lambda: self._read(resource, handler, received), not_understood)

    def _read(self, resource: Resource, handler: KubeHandler, received: KubeObject) -> None:
        reduced = resource.reduced(received)
        state, key = self._states[resource.name], key_of(received)
        line = json.dumps(reduced, separators=(",", ":")).encode()
        if state.lines.get(key) == line:
            state.invalid.pop(key, None)
            return  # most of a list that is not the first
        try:
            handler.put(resource.name, reduced)
        except Invalid as exc:
            log.warning("Kubernetes object invalid", extra=fields(error=exc))
            state.invalid[key] = str(exc)
            return
        state.invalid.pop(key, None)
        state.lines[key] = line
        state.changed.add(key)

    def _remove(self, resource: Resource, handler: KubeHandler, key: str) -> None:
        handler.remove(resource.name, key)
        state = self._states[resource.name]
        state.invalid.pop(key, None)
        if state.lines.pop(key, None) is not None:
            state.changed.add(key)

    def _forget(self, resource: Resource, handler: KubeHandler) -> None:
        """Drop what a resource said that is not followed any more, but another in its place."""
        state = self._states[resource.name]
        if state.known:
            handler.retain(resource.name, ())
            self._states[resource.name] = _State(unsaved=True)
            self._to_save.set()

    def _counts(self) -> Iterable[int]:
        return (len(state.lines) for state in self._states.values())

    # -- health ----------------------------------------------------------------------------------

    def _heard(self, resource: Resource, version: str) -> None:
        state = self._states[resource.name]
        now = self._clock()
        state.heard, state.version, state.unsaved = now, version, True
        self._alive(state, now)
        self._to_save.set()

    def _note(self, root: Resource, sign: KubeSign) -> None:
        now = self._clock()
        followed = next((one for one in root.alternatives() if self._states[one.name].listed), root)
        state = self._states[followed.name]
        if not sign.fault:
            state.heard = now
            state.version = sign.version or state.version
            self._alive(state, now)
            return
        if state.faulty is None:
            state.faulty = now
        state.fault, state.connected = sign.fault, None

    @staticmethod
    def _alive(state: _State, now: float) -> None:
        state.fault, state.faulty = "", None
        if state.connected is None:
            state.connected = now

    # -- cache -----------------------------------------------------------------------------------

    async def _save_changes(self) -> None:
        # At once: what is in force must not be unknown to the next agent, whenever this one is
        # killed. A write takes as much as has changed while the last one ran.
        while True:
            await self._to_save.wait()
            await retry(self._saving, self.save)

    async def save(self) -> None:
        """Write what has changed since it was saved. Raises HostError; all is written next then."""
        self._to_save.clear()
        try:
            for name, state in tuple(self._states.items()):
                if state.unsaved:
                    await self._save(name, state)
        except HostError:
            for state in self._states.values():
                state.unsaved = True
                state.changed.update(state.lines)
            raise

    async def _save(self, name: str, state: _State) -> None:
        # Taken before the thread starts: what changes meanwhile is saved next.
        changes = {key: state.lines.get(key) for key in state.changed}
        state.unsaved, state.changed = False, set()
        if state.known:
            await asyncio.to_thread(self._cache.save, name, state.version, changes)
        else:
            await asyncio.to_thread(self._cache.remove, name)
