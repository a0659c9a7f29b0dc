"""Reconciles one switch with the desired flows of its bridge.

In come changes of the desired flows (from `ofnet.agent`) and the connection's events; out go
flow-mods to `ofnet.channel.switch`. Changes are sent as they come. After every connect, every
failure and every audit interval the switch's flows are dumped, compared with the desired ones and
corrected until nothing differs. Must not know how flows are made.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from core.errors import SwitchRefused, SwitchUnavailable
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, Loop, Pace
from ofnet.changes import ObjectKind
from ofnet.channel.requests import FlowsRefused
from ofnet.channel.switch import Switch
from ofnet.desired import Desired, FlowDelta
from ofnet.diff import Difference, FlowStamp, difference
from ofnet.flows import AnyFlow, Flow, FlowKey
from ofnet.openflow.meters import Meter
from ofnet.outbox import Outbox, PendingUpdate, fail, failing
from ofnet.refusals import Refusals
from ofnet.translations import Translated, begun

log = logging.getLogger(__name__)

MAX_ROUNDS: Final = 5
"""Comparisons in a row after which a switch that does not converge is left until later."""

PACE: Final = Pace(0.2, 5.0)
"""Of comparisons after a failure."""

UPDATE_LIMIT: Final = patient(60.0)
"""Seconds after which an update is given up; the switch's own limits come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncLimits:
    """Pauses in seconds, and what is too much for the event loop."""

    audit_interval: float = 60.0
    """Between two comparisons when nothing else asks for one."""

    forget_again: tuple[float, ...] = (0.7, 3.0)
    """After which ended connections are forgotten once more.

    Until it has revalidated its megaflows the datapath goes by flows from before, and may begin an
    ended connection anew. This takes half a second; longer on a busy machine.
    """

    in_thread: int = 50_000
    """Flows from which on they are compared in a thread, since the event loop would stand still for
    some 0.1 s; for seconds with 500 networks."""


class FlowSync:
    """The only sender of flow-mods of one bridge. `run` is its task.

    `before_compare` is awaited before each dump and may change the desired flows. `stats` counts
    failures and refusals.
    """

    # One task sends everything and waits for each acknowledgement. Two senders could interleave an
    # addition with an older deletion of the same flow, and a dump taken between them would show a
    # state that neither expects. Callers put changes into the outbox and await the outcome.
    #
    # After a connect nothing is replayed: the switch is compared. A log of sent changes cannot tell
    # what a switch holds that restarted, lost the connection in the middle of a write, or was
    # changed by `ovs-ofctl`; a dump can. A switch that kept its flows gets no flow-mod at all, so
    # an agent's restart interrupts no traffic.

    def __init__(
        self,
        switch: Switch,
        desired: Desired,
        stats: Counter[str],
        *,
        before_compare: Callable[[], Awaitable[None]],
        limits: SyncLimits,
    ) -> None:
        self._spared: frozenset[ObjectKind] = frozenset()
        self.on_change: Callable[[], None] = _ignore
        """Called whenever `fully_synced` or `refused` may have changed."""

        self.comparisons = 0
        """How often the switch's flows were compared with the desired ones."""
        self.differences = 0
        """How many flows were missing, different or unwanted then."""

        self._switch = switch
        self._desired = desired
        self._stats = stats
        self._before_compare = before_compare
        self._limits = limits
        self._outbox = Outbox()
        self._refusals = Refusals()
        self._gone: set[FlowStamp] = set()
        """Flows of kinds that are spared which were wanted and are no more: these are deleted."""
        self._ended: set[Translated] = set()
        """Connections to be forgotten after the next comparison: their change met no switch."""
        self._late: list[tuple[float, frozenset[Translated]]] = []
        self._wake = asyncio.Event()
        self._audit_at = 0.0
        self._pauses = PACE.pauses()
        self._synced = asyncio.Event()
        self._loop = Loop(
            log, "flow update failed", about=f"bridge {desired.bridge}", patience=REMOTE
        )

    @property
    def synced(self) -> bool:
        """True when the last comparison found no difference, and nothing has failed since."""
        return self._synced.is_set() and self._switch.connected

    @property
    def fully_synced(self) -> bool:
        """True when `synced` and no refused flow leaves a gap: nothing passes that is denied."""
        return self.synced and not self._refusals.gap

    async def wait_synced(self) -> None:
        """Return when a switch is connected and a comparison has found no difference."""
        await self._synced.wait()

    @property
    def refused(self) -> Mapping[FlowKey, tuple[Flow, str]]:
        """The flows the switch refuses, with its reason (`ofnet.refusals`).

        They are tried again with every connection, when they change, and at some of the audits.
        """
        return self._refusals.flows

    def spare(self, kinds: frozenset[ObjectKind]) -> None:
        """Set the kinds of objects whose flows are kept though no desired flow is equal.

        Flows spared until now are deleted by the comparison that comes with the next change.
        """
        if not kinds >= self._spared:
            self._audit_at = 0.0
        self._spared = kinds

    def forget(self, ended: Iterable[Translated]) -> None:
        """Have connections forgotten after the next change or comparison."""
        self._outbox.ended.update(ended)
        self._wake.set()

    def send(self, delta: FlowDelta) -> PendingUpdate:
        """Queue a change; the result is done when the switch has acknowledged it."""
        self._note(delta)
        if delta.large:
            self._audit_at = 0.0
        self._outbox.put(delta.add, delta.delete)
        self._outbox.ended |= delta.ended
        update = PendingUpdate(asyncio.get_running_loop().create_future(), delta.touched)
        self._outbox.pending.append(update)
        self._wake.set()
        return update

    async def apply(self, delta: FlowDelta) -> None:
        """Send a change; return when the switch has acknowledged it.

        Raises SwitchUnavailable (nothing is queued without a switch: the comparison that follows
        a connect sends the change) or FlowsRefused.
        """
        if not self._switch.connected:
            self._note(delta)
            self._ended |= delta.ended
            raise SwitchUnavailable(f"no switch is connected for bridge {self._desired.bridge}")
        update = self.send(delta)
        try:
            async with asyncio.timeout(UPDATE_LIMIT):
                await update.done
        except TimeoutError as exc:
            self._mark_unsynced()
            raise SwitchUnavailable(
                f"bridge {self._desired.bridge} was not updated in time"
            ) from exc

    def _note(self, delta: FlowDelta) -> None:
        """Note what a comparison does not see in the flows, whether a switch is there or not."""
        self._gone.update(
            FlowStamp(flow.table, flow.cookie)
            for flow in delta.delete
            if flow.owner in self._spared
        )
        # a provider may have come back
        self._late = [(when, ended - delta.lasting) for when, ended in self._late]
        self._ended -= delta.lasting

    async def run(self) -> None:
        """Send changes and compare, for ever."""
        bridge = self._desired.bridge
        try:
            while True:
                await self._wait_for_work()
                if self._switch.connected:
                    await self._run_once()
                else:
                    self._fail_pending(f"the switch of {bridge} is gone")
        finally:
            self._fail_pending(f"the agent of bridge {bridge} has stopped")

    # -- events of the connection --------------------------------------------------------------

    def on_connected(self) -> None:
        """Compare at once: what the switch holds and takes is unknown."""
        self._synced.clear()
        self._refusals.clear()
        self._audit_at = 0.0
        self._pauses = PACE.pauses()
        self._wake.set()

    def on_disconnected(self) -> None:
        """Fail the updates that wait for the switch."""
        self._synced.clear()
        self._wake.set()
        self.on_change()

    def compare_soon(self) -> None:
        """Compare after a back-off, or at the next audit if that comes first."""
        soon = asyncio.get_running_loop().time() + next(self._pauses)
        self._audit_at = min(self._audit_at, soon)
        self._wake.set()

    # -- the sending task ----------------------------------------------------------------------

    async def _wait_for_work(self) -> None:
        pause = None
        if self._switch.connected:
            due = min([self._audit_at, *(when for when, _ in self._late)])
            pause = max(0.0, due - asyncio.get_running_loop().time())
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()
        self._wake.clear()

    async def _run_once(self) -> None:
        try:
            await self._forget_late()
            now = asyncio.get_running_loop().time()
            if now >= self._audit_at:
                # set before comparing: a request for an earlier audit may come during it
                self._audit_at = now + self._limits.audit_interval
                await self._try_refused()
                await self._compare([])
                self._pauses = PACE.pauses()
            else:
                await self._flush()
        except (SwitchUnavailable, SwitchRefused) as exc:
            self._stats["SwitchFailure"] += 1
            self._loop.failed(exc)
            self._mark_unsynced()
        else:
            self._loop.succeeded()
        self.on_change()

    async def _flush(self) -> None:
        box = self._take_outbox()
        outdated = self._refusals.outdated(self._desired.held, box.add.keys())
        box.delete.update(dict.fromkeys(outdated))
        with failing(box.pending), self._ending(box.ended):
            try:
                await self._switch.apply(tuple(box.add.values()), tuple(box.delete))
            except FlowsRefused as exc:
                # The switch may have installed any part of the rest. Only a comparison without the
                # refused flows can tell the other updates that their flows are in place.
                self._record_refusal(exc)
                self._outbox.ended |= box.ended
                await self._compare(box.pending)
                return
            self._gone.difference_update(box.delete)
            await self._forget(box.ended)
        self._acknowledge(box.pending)

    async def _try_refused(self) -> None:
        """Ask whether the switch takes by now what it refused; the comparison installs that."""
        if due := self._refusals.due():
            still = await self._switch.refusals(due)
            self._refusals.accept(flow for flow in due if flow not in still)

    async def _compare(self, pending: list[PendingUpdate]) -> None:
        """Correct the switch until a dump shows no difference; then acknowledge `pending`."""
        ended: set[Translated] = set()
        with failing(pending), self._ending(ended):
            for _ in range(MAX_ROUNDS):
                await self._before_compare()
                reported = await self._switch.session.dump()
                # The outbox is emptied after the dump and before the difference is computed: the
                # desired flows contain these changes already, so the difference covers them.
                box = self._take_outbox()
                pending += box.pending
                ended |= box.ended | self._ended
                self._ended.clear()
                self._gone.update(self._refusals.outdated(self._desired.held, box.add.keys()))
                groups, meters = self._desired.groups(), self._desired.meters()
                gone = frozenset(self._gone)
                wanted = (await self._difference(reported)).sparing(self._spared, gone)
                self.comparisons += 1
                self.differences += len(wanted.add) + len(wanted.delete)
                if not wanted:
                    self._gone -= gone
                    await self._forget(ended)
                    await self._remove_groups(groups)
                    await self._settle_meters(meters)
                    self._acknowledge(pending)
                    self._synced.set()
                    return
                # Whoever waits for the datapath (`netplugin.masters.progress`) has to wait for
                # this correction too: megaflows made of the wrong flows may outlast them.
                self._synced.clear()
                self.on_change()
                await self._correct(wanted)
            raise SwitchRefused(
                f"flows of bridge {self._desired.bridge} did not converge "
                f"after {MAX_ROUNDS} attempts"
            )

    async def _difference(self, reported: list[FlowStamp]) -> Difference:
        # A copy of the desired flows as they are now: what changes while a thread compares them is
        # in the outbox, and is sent after the difference.
        flows = self._refusals.possible(self._desired.held)
        if len(flows) < self._limits.in_thread:
            return difference(flows, reported)
        return await asyncio.to_thread(difference, flows, reported)

    async def _correct(self, wanted: Difference) -> None:
        log.info(
            "flows differ from the desired state, reconciling",
            extra=fields(
                bridge=self._desired.bridge, flows=len(wanted.add), count=len(wanted.delete)
            ),
        )
        try:
            await self._switch.apply(wanted.add, wanted.delete)
        except FlowsRefused as exc:
            self._record_refusal(exc)

    async def _remove_groups(self, used: frozenset[int]) -> None:
        """Remove the groups that no flow uses; a flow that is added brings its group with it."""
        # A flow that is spared may use a group that no desired flow has.
        if not self._spared:
            unused = [one for one in await self._switch.session.groups() if one not in used]
            if unused:
                await self._switch.session.remove_groups(unused)

    async def _settle_meters(self, used: frozenset[Meter]) -> None:
        """Restore the meters that somebody changed, and remove those that no flow uses."""
        # A meter that is deleted takes its flows with it, so that none is missing here.
        found = await self._switch.session.meters()
        numbers = {meter.id for meter in used}
        changed = used - set(found)
        if changed:
            log.info("meters differ, corrected", extra=fields(bridge=self._desired.bridge))
            await self._switch.set_meters(tuple(changed))
        # a flow that is spared may use a meter that no desired flow has
        unused = [meter.id for meter in found if meter.id not in numbers]
        if unused and not self._spared:
            await self._switch.session.remove_meters(unused)

    @contextmanager
    def _ending(self, ended: Set[Translated]) -> Iterator[None]:
        """Have the next comparison end connections if the body fails, but those begun anew."""
        try:
            yield
        except (SwitchUnavailable, SwitchRefused):
            self._ended |= ended - frozenset(begun(self._desired.whole()))
            raise

    async def _forget(self, ended: Collection[Translated], *, again: bool = False) -> None:
        if not ended:
            return
        try:
            await self._switch.session.forget(ended)
        except SwitchRefused as exc:
            self._stats["ConnectionsKept"] += len(ended)
            about = fields(bridge=self._desired.bridge, count=len(ended), error=str(exc))
            log.warning(
                "connections to removed providers not ended, the switch refused", extra=about
            )
            return
        if not again:
            now = asyncio.get_running_loop().time()
            self._late += [(now + pause, frozenset(ended)) for pause in self._limits.forget_again]

    async def _forget_late(self) -> None:
        now = asyncio.get_running_loop().time()
        due = [ended for when, ended in self._late if when <= now]
        self._late = [one for one in self._late if one[0] > now]
        await self._forget(frozenset[Translated]().union(*due), again=True)

    # -- outcomes ------------------------------------------------------------------------------

    def _record_refusal(self, refusal: FlowsRefused) -> None:
        new = self._refusals.record(self._made(refusal.flows))
        self._stats["FlowsRefused"] += len(refusal.flows)
        if new:
            flow, reason = new[0]
            about = fields(
                bridge=self._desired.bridge,
                count=len(new),
                key=self._desired.owner(flow.key),
                error=f"{reason}: {flow}",
            )
            log.error("flows refused by the switch", extra=about)

    def _made(self, refused: Iterable[tuple[AnyFlow, str]]) -> Iterator[tuple[Flow, str]]:
        """Yield refused flows with their contents; those that are wanted otherwise are left out."""
        for flow, reason in refused:
            made = [flow] if isinstance(flow, Flow) else self._desired.made([flow.key])
            yield from ((one, reason) for one in made if one.cookie == flow.cookie)

    def _mark_unsynced(self) -> None:
        self._synced.clear()
        self.compare_soon()

    def _take_outbox(self) -> Outbox:
        box, self._outbox = self._outbox, Outbox()
        return box

    def _acknowledge(self, pending: list[PendingUpdate]) -> None:
        for update in pending:
            known = self._refusals.flows
            refused = [known[key] for key in known.keys() & update.touched]
            if refused:
                fail([update], FlowsRefused(refused))
            elif not update.done.done():
                update.done.set_result(None)
        pending.clear()

    def _fail_pending(self, reason: str) -> None:
        box = self._take_outbox()
        self._ended |= box.ended
        fail(box.pending, SwitchUnavailable(reason))


def _ignore() -> None:
    """Do nothing: the observer until one is set."""
