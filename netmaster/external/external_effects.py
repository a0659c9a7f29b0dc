"""Changes with external side effects (Docker, ACI): record the intent, apply, commit, repair.

External objects are application profiles in the ACI gateway and, in mode docker, Docker networks.
A change without such effects is committed like any other. Otherwise three steps follow each other:
the affected objects are stored as pending effects (ADR 4); the operations are performed outside;
the change is committed together with the end of the pending effects and with what the operations
returned. A failure at any point, a crash included, leaves pending effects, and `repair` syncs those
objects with the store. The next leader does so, too.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from core.errors import ContivError, StoreUnavailable
from core.retry import Loop
from core.tasks import unbroken
from netmaster.commits.commit import Committer
from netmaster.plan import docker_network
from netmaster.plan.docker_network import DockerNetworkOperation
from netmaster.plan.external import aci, pending_effects
from netmaster.plan.external.aci import ProfileOperation
from netmaster.plan.model import Plan
from netmaster.stored import PendingDockerNetwork, PendingEffect, PendingProfile, Write
from netmaster.view import View

log = logging.getLogger(__name__)

Decide = Callable[[View], Plan]
ExternalOperation = ProfileOperation | DockerNetworkOperation
"""What the gateway or Docker must do about one object."""
DOCKER: Final = "docker"
"""The mode of the cluster in which netmaster manages Docker's networks."""
ATTEMPTS: Final = 5


class GatewayApi(Protocol):
    """The calls to the ACI gateway; implemented by `netmaster.external.aci`."""

    async def create(self, body: str) -> None:
        """Create an application profile in the fabric."""

    async def delete(self, body: str) -> None:
        """Delete an application profile from the fabric."""


class DockerApi(Protocol):
    """The calls to Docker; implemented by `netmaster.external.docker`."""

    async def create(self, name: str, wanted: Mapping[str, Any]) -> str:
        """Create a network unless it exists; return its id."""

    async def delete(self, name: str) -> None:
        """Delete the network of a name if it exists."""


class ExternalEffects:
    """Makes changes in the store and outside during one term of leadership."""

    # Invariant: an external object differs from the store only while the store has a pending effect
    # for it. So the intent is committed before the first operation, and removed in the very
    # transaction that makes the change: no crash can fall between the change and its removal.
    #
    # There is no undo. A failed operation may have been performed all the same (its answer was
    # lost), and an undo may fail as well. `repair` makes the object what the store says, however
    # often it is called.
    #
    # `_external` lets one change at a time go outside. Two operations on one object could
    # otherwise reach Docker in another order than their changes reach the store.

    def __init__(
        self, committer: Committer, gateway: GatewayApi, docker: DockerApi, *, mode: str
    ) -> None:
        self._committer = committer
        self._gateway = gateway
        self._docker = docker
        self._mode = mode
        self._external = asyncio.Lock()
        self.loop = Loop(log, "external state differs from store")
        """The repairs, which follow each other at a pace of their own."""

    async def change(self, decide: Decide) -> object:
        """Decide a change and make it, with its external effects; return the plan's reply.

        Raises what `decide`, the gateway and Docker raise; then nothing has changed.
        """
        reply = await self._committer.submit(lambda view: self._plan_if_no_effects(view, decide))
        if not isinstance(reply, _EffectsNeeded):
            return reply
        # A client that hangs up must not stop the steps half-way.
        return await unbroken(self._change_with_effects(decide))

    async def repair(self) -> None:
        """Sync all external objects that have a pending effect with the store, where possible."""
        async with self._external:
            await self._repair()

    async def _change_with_effects(self, decide: Decide) -> object:
        async with self._external:
            for _ in range(ATTEMPTS):
                needed = await self._committer.submit(lambda view: self._plan_intent(view, decide))
                if not isinstance(needed, _EffectsNeeded):
                    return needed
                reply = await self._apply(decide, needed)
                if not isinstance(reply, _EffectsNeeded):
                    return reply
                await self._repair()
        raise StoreUnavailable("conflicting concurrent changes, try again")

    async def _apply(self, decide: Decide, needed: "_EffectsNeeded") -> object:
        """Perform the operations, then commit the change; return the plan's reply.

        Return the operations that would have been needed instead if the view changed meanwhile.
        """
        try:
            for operation in needed.first:
                await self._perform(operation)
            results = [await self._perform(operation) for operation in needed.operations]
            return await self._committer.submit(
                lambda view: self._plan_completion(view, decide, needed, results)
            )
        except ContivError:
            await self._repair()
            raise

    async def _perform(self, operation: ExternalOperation) -> str:
        """Perform an operation; return what is to be stored of its result."""
        match operation:
            case ProfileOperation():
                if operation.known:
                    await self._gateway.delete(aci.deletion(operation.profile))
                if operation.wanted is not None:
                    await self._gateway.create(operation.wanted)
            case DockerNetworkOperation():
                if operation.wanted is not None:
                    return await self._docker.create(operation.name, operation.wanted)
                await self._docker.delete(operation.name)
        return ""

    async def _repair(self) -> None:
        failure: ContivError | None = None
        try:
            for effect in await self._committer.read(self._pending):
                try:
                    await self._repair_one(effect)
                except ContivError as exc:
                    failure = exc  # its pending effect stays, so the next repair tries again
        except ContivError as exc:
            failure = exc
        if failure is not None:
            self.loop.failed(failure)
        else:
            self.loop.succeeded()

    async def _repair_one(self, effect: PendingEffect) -> None:
        operation = await self._committer.read(lambda view: _sync_operation(view, effect))
        result = await self._perform(operation)
        await self._committer.submit(
            lambda view: Plan(_completion_writes(view, [operation], [result]), reply=None)
        )

    def _operations(self, view: View, writes: Sequence[Write]) -> tuple[ExternalOperation, ...]:
        """Return the external operations that a plan's writes require."""
        profiles = aci.operations(view, writes)
        if self._mode != DOCKER:
            return profiles
        return (*profiles, *docker_network.operations(view, writes))

    def _pending(self, view: View) -> list[PendingEffect]:
        profiles = [
            effect for effect in view.pending_effects.values() if isinstance(effect, PendingProfile)
        ]
        if self._mode != DOCKER:
            return [*profiles]
        return [*profiles, *docker_network.pending(view)]

    def _plan_if_no_effects(self, view: View, decide: Decide) -> Plan:
        """Return the plan itself if it has no external effects, else one without writes."""
        plan = decide(view)
        found = self._operations(view, plan.writes)
        return Plan((), reply=_EffectsNeeded(found)) if found else plan

    def _plan_intent(self, view: View, decide: Decide) -> Plan:
        """Return the plan that stores the pending effects of a change, if it has any.

        An object with a pending effect from before is synced first: an operation assumes that
        the object is as the store says.
        """
        plan = decide(view)
        found = self._operations(view, plan.writes)
        if not found:
            return plan
        first = [
            _sync_operation(view, operation.effect)
            for operation in found
            if operation.effect.key in view.pending_effects
        ]
        return Plan(pending_effects.recorded(view, found), reply=_EffectsNeeded(found, first))

    def _plan_completion(
        self, view: View, decide: Decide, performed: "_EffectsNeeded", results: Sequence[str]
    ) -> Plan:
        """Return the plan of the change and the end of its pending effects.

        It has no writes if other operations would be needed now than were performed: the view
        changed while they ran.
        """
        plan = decide(view)
        found = self._operations(view, plan.writes)
        if found != performed.operations:
            return Plan((), reply=_EffectsNeeded(found))
        return Plan(
            (*plan.writes, *_completion_writes(view, found, results)), plan.reply, plan.then
        )


@dataclass(frozen=True, slots=True)
class _EffectsNeeded:
    """The reply of a plan that waits for operations; those in `first` are performed before them."""

    operations: tuple[ExternalOperation, ...]
    first: Sequence[ExternalOperation] = ()


def _sync_operation(view: View, effect: PendingEffect) -> ExternalOperation:
    """Return the operation that syncs an external object with the store."""
    match effect:
        case PendingProfile():
            return aci.sync_operation(view, effect.profile)
        case PendingDockerNetwork():
            return docker_network.sync_operation(view, effect)


def _completion_writes(
    view: View, operations: Sequence[ExternalOperation], results: Iterable[str]
) -> tuple[Write, ...]:
    """Return the writes that end pending effects and record the results of their operations."""
    records = (
        write
        for operation, result in zip(operations, results, strict=True)
        if isinstance(operation, DockerNetworkOperation)
        for write in docker_network.record_writes(view, operation, result)
    )
    return (*pending_effects.ended(view, operations), *records)
