"""Probes the tunnels to other hosts with packets of the tunnels, short ones and of full size.

In come the tunnels of the World and the answers that the switch hands to the agent
(`ofnet.pipelines.features.tunnel_probes`); out go questions by packet-out, and a fault for each
host of which too few come back. The other host's switch answers, so that its agent may be away.
`TunnelRecord` decides and does no I/O; `TunnelProbes` sends up to 20 probes a second. Where an
answer is missed, a train of probes follows at once, so that a second or two tell what else takes
many. Which of both directions is cut is told by the counter of the tunnel's port: the other host
probes as well.

An answer that comes late is no loss, however late: a probe is taken for lost once a later one was
answered, since what goes one way keeps its order, or after `WAIT`. Nothing is judged after a pause
of this process, whose answers wait unread, nor while this host's switch is away. A host that
answers neither here nor an echo request may be switched off, which is no fault of a tunnel.

A share of lost packets is told by `EPISODES` losses, apart from each other, among the latest
`WINDOW` probes, of which some 235 are short. Of 235 short ones 5 % are 11.75, and the losses apart
from each other 11.2: fewer than 5 come of a binomial distribution with a probability of 0.9 %. In
9 s a host sends 180 short probes to a peer, and with the trains after the first losses more than
235; 0.5 s later the last of them is judged. So one of both hosts names 5 % within 10 s in more than
99 of 100 cases. One of a thousand lost is told by chance in one of 200 000 windows, some ten
seconds each; where nothing is lost nothing is told. The tests measure both. To more than 20 peers a
host sends fewer probes each, `A_SECOND` in all: to 49 of them 8 a second, and names 5 % after 6 s
in half of all cases.
"""

import asyncio
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from statistics import median
from typing import Final

from core.collections.latest import Latest
from core.errors import HostError, SwitchRefused, SwitchUnavailable
from core.ids import HostLabel
from core.logs import fields
from core.patience import patient
from core.retry import REMOTE, FaultBoard, Loop
from netplugin.bridges.vxlan.path_mtu import (
    MAX_CONCURRENT,
    SHORT,
    PodSizes,
    Probe,
    by_host,
)
from netplugin.world.peers import Address, Peers
from ofnet.agent import BridgeAgent
from ofnet.packets.packetin import PacketOut
from ofnet.pipelines.features import tunnel_probes as frames
from ofnet.world import Bridge, Vtep

log = logging.getLogger(__name__)

PERIOD: Final = 1.0
"""Seconds between two looks at what was answered, two long probes of a peer, and two short ones at
most."""
BURST: Final = 4
"""Probes that a peer gets at once: what costs is to wake up for them."""
OFTEN: Final = 0.2
"""Seconds between two bursts for each of few peers."""
A_SECOND: Final = 400
"""Probes a second above which peers are probed less often. One peer costs the agent 0.4 % of a
processor, 20 peers 0.8 %, without the connection to the switch."""
LOOK: Final = 0.25
"""Seconds between two looks at what is missed."""
SUSPECT: Final = patient(0.5)
"""Seconds after which an answer is missed, though it may come: a train follows."""
OVERTAKEN: Final = patient(0.5)
"""Seconds by which a probe was sent before an answered one, if it is taken for lost."""
TRAIN: Final = 60
"""Probes of a train."""
LONG_IN_TRAIN: Final = 6
"""One of so many probes of a train is long."""
STEP: Final = 0.05
"""Seconds between two probes of a train."""
TRAIN_AGAIN: Final = 4.0
"""Seconds between the beginnings of two trains to a peer."""
TRAINS: Final = 8
"""Peers that have trains at once: all of them are missed while the own link is down."""
WAIT: Final = patient(3.0)
"""Seconds until a probe without an answer is taken for lost, where no later one is answered."""
WINDOW: Final = 250
"""Probes of a peer that are judged together."""
SILENT: Final = 5
"""So many in a row, all lost, and sent over `SPAN`: nothing passes."""
LONG: Final = 3
"""The same of long ones, while most of the short ones between them pass."""
SPAN: Final = 1.5
"""Seconds between the first and the last of these: a train alone is too short to tell."""
EPISODES: Final = 5
"""Times that losses must have begun among `WINDOW` probes, 2 %: one pause of the other switch is no
loss of the tunnel."""
UNHEARD: Final = 30.0
"""Seconds for which a peer that has never answered may be about to start."""
EVERYBODY: Final = 50
"""Hosts of a cluster up to which each probes all others."""
COUNTS: Final = 4
"""Counts of a tunnel's packets that are compared, one each `PERIOD`."""
ETHERNET: Final = 14
"""Bytes of a frame before its packet."""
ECHO_AGAIN: Final = 2.0
"""Seconds between two rounds of echo requests to peers that are missed."""


@dataclass(slots=True)
class ProbeOutcome:
    """A probe that was judged: when it was sent, and the seconds to its answer, None if lost."""

    long: bool
    sent: float
    seconds: float | None = None


class TunnelRecord:
    """What became of the probes of one peer, which is probed from `began` on. Pure."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._heard = False
        self._waiting: dict[int, tuple[bool, float]] = {}
        self._judged: dict[int, ProbeOutcome] = {}
        self._left = 0
        self._lost = False
        """Whether a probe was lost since the last train began."""
        self._trained: float | None = None
        self._answered = -math.inf
        """When the latest probe was sent that was answered."""

    def sent(self, number: int, *, long: bool, at: float) -> None:
        """Note a probe."""
        self._waiting[number] = long, at

    def answered(self, number: int, at: float) -> None:
        """Note an answer; one that comes late takes the loss back."""
        self._heard = True
        if number in self._waiting:
            long, sent = self._waiting.pop(number)
            self._judged[number] = ProbeOutcome(long, sent, at - sent)
            self._answered = max(self._answered, sent)
        elif (outcome := self._judged.get(number)) is not None and outcome.seconds is None:
            outcome.seconds = at - outcome.sent

    def judge(self, now: float) -> None:
        """Take for lost what has waited too long, or was overtaken."""
        for number, (long, sent) in list(self._waiting.items()):
            if now - sent >= WAIT or self._answered - sent >= OVERTAKEN:
                del self._waiting[number]
                self._judged[number] = ProbeOutcome(long, sent)
                self._lost = True
        for number in sorted(self._judged)[:-WINDOW]:
            del self._judged[number]

    def next_in_train(self, now: float) -> bool | None:
        """Return whether the probe that is to follow at once is long; None for none.

        A train begins where an answer is missed, of a peer that has answered before.
        """
        rested = self._trained is None or now - self._trained >= TRAIN_AGAIN
        missed = self._lost or self._is_missed(now)
        if not self._left and self._heard and rested and missed:
            if self.is_silent(now):
                return None
            self._left, self._trained, self._lost = TRAIN, now, False
        if not self._left:
            return None
        self._left -= 1
        return self._left % LONG_IN_TRAIN == 0

    def _is_missed(self, now: float) -> bool:
        return any(now - sent >= SUSPECT for _, sent in self._waiting.values())

    def forget_waiting(self) -> None:
        """Judge nothing of what has no answer yet."""
        self._waiting.clear()

    @property
    def loss(self) -> float:
        """The share of lost probes, 0 while too few were judged."""
        found = self._judged.values()
        return sum(one.seconds is None for one in found) / len(found) if found else 0.0

    @property
    def seconds(self) -> float | None:
        """The median time from a probe to its answer; None without one."""
        found = [one.seconds for one in self._judged.values() if one.seconds is not None]
        return median(found) if found else None

    def is_doubtful(self, now: float) -> bool:
        """Return whether an answer is missed, or the latest probe was lost."""
        latest = max(self._judged, default=None)
        is_lost = latest is not None and self._judged[latest].seconds is None
        return is_lost or self._is_missed(now) or self._lost or self._left > 0

    def is_silent(self, now: float) -> bool:
        """Return whether nothing passes, neither short nor long probes."""
        if not self._heard and now - self._began < UNHEARD:
            return False
        return _are_lost(self._in_order(), SILENT)

    def fault(self, size: int) -> str:
        """Return what is wrong with a tunnel that is not silent; "" for nothing."""
        outcomes = self._in_order()
        if _are_lost([one for one in outcomes if one.long], LONG):
            # not so where the other switch paused, and both kinds were lost
            long = [at for at, one in enumerate(outcomes) if one.long and one.seconds is not None]
            since = outcomes[long[-1] + 1 :] if long else outcomes
            first = next(at for at, one in enumerate(since) if one.long)
            short = [one.seconds is not None for one in since[first:] if not one.long]
            if 2 * sum(short) > len(short):
                return (
                    f"packets of {size} bytes do not pass the tunnel, short ones do: raise the MTU "
                    f"of what lies between, or start agents with a smaller --mtu"
                )
        # Long ones say nothing of loss: while links change their sizes some are lost.
        lost = [one.seconds is None for one in outcomes if not one.long]
        episodes = sum(gone for gone, _ in groupby(lost))
        if episodes < EPISODES:
            return ""
        return (
            f"{sum(lost)} of {len(lost)} short packets were lost on the way there or back: "
            f"look at the counters of the cards and switches between"
        )

    def _in_order(self) -> list[ProbeOutcome]:
        return [self._judged[number] for number in sorted(self._judged)]


def period(peers: int) -> float:
    """Return the seconds between two bursts for each of so many peers."""
    return min(max(OFTEN, peers * BURST / A_SECOND), PERIOD)


def _are_lost(outcomes: Sequence[ProbeOutcome], least: int) -> bool:
    """Return whether the latest outcomes, so many at least and over `SPAN`, are all losses."""
    number = next(
        (at for at, one in enumerate(reversed(outcomes)) if one.seconds is not None), len(outcomes)
    )
    lost = outcomes[len(outcomes) - number :]
    return number >= least and lost[-1].sent - lost[0].sent >= SPAN


def probed(own: HostLabel, others: Mapping[HostLabel, object]) -> frozenset[HostLabel]:
    """Return the hosts that one probes: all, in a large cluster some by their place on a ring.

    These are the ones 1, 2, 4, 8, … places on and back, so that whoever one probes probes it, and
    the hosts that probe one another are connected.
    """
    if len(others) < EVERYBODY:
        return frozenset(others)
    ring = sorted({own, *others}, key=lambda label: sha256(label.encode()).digest())
    here, steps = ring.index(own), [1 << power for power in range(len(ring).bit_length())]
    places = {(here + sign * step) % len(ring) for step in steps for sign in (1, -1)}
    return frozenset(ring[place] for place in places) - {own}


def silence(address: Address, port: int, counts: Sequence[int]) -> str:
    """Return the fault of a tunnel through which no probe comes back, with the way that is cut.

    The other host answers echo requests. `counts` are of the packets that came by the tunnel, the
    latest last: the other host probes too, so that none comes only if its way to here is cut.
    """
    other = f"{address}, which answers echo requests"
    remedy = "and see that no other machine has the address"
    if len(counts) < COUNTS:
        return (
            f"no packet of the tunnel comes back from {other}: let UDP {port} pass between the "
            f"hosts, both ways, {remedy}"
        )
    if counts[-1] > counts[0]:
        return (
            f"packets of the tunnel arrive from {other}, but none comes there: let UDP {port} pass "
            f"from this host to it, {remedy}"
        )
    return (
        f"no packet of the tunnel arrives from {other}: let UDP {port} pass from it to this host, "
        f"{remedy}"
    )


class TunnelProbes:
    """The probes of one host. `port` is that of the tunnels; `echo` asks an address outside."""

    def __init__(
        self,
        *,
        own: HostLabel,
        agent: BridgeAgent,
        peers: Peers,
        sizes: PodSizes,
        port: int,
        echo: Probe,
        board: FaultBoard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own = own
        self._agent = agent
        self._hosts = peers
        self._sizes = sizes
        self._port = port
        self._echo = echo
        self._board = board
        self._clock = clock
        # asked each second, and hashes the labels of all hosts of a large cluster
        self._probed = Latest(probed)
        self._run = secrets.randbits(64)
        self._number = 0
        self._long_sent = -math.inf
        self._records: dict[HostLabel, TunnelRecord] = {}
        self._peers: Mapping[int, Vtep] = {}
        self._looked = -math.inf
        self._training = False
        self._echoes: dict[HostLabel, bool] = {}
        self._counts: dict[HostLabel, deque[int]] = {}
        self._faults: Mapping[HostLabel, str] = {}
        self._counting = Loop(log, "arrivals by tunnels not counted", patience=REMOTE)
        self._asking = Loop(log, "echo requests to silent hosts not sent", errors=HostError)
        agent.set_probe_receiver(self._receive)

    @property
    def records(self) -> Mapping[HostLabel, TunnelRecord]:
        """What became of the probes of each peer."""
        return self._records

    @property
    def faults(self) -> Mapping[HostLabel, str]:
        """What is wrong with the tunnels now, by host."""
        return self._faults

    async def run(self) -> None:
        """Probe and judge, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ask_echoes())
            tasks.create_task(self._count_arrivals())
            while True:
                self.probe_all()
                until = self._clock() + period(len(self._records))
                while (left := until - self._clock()) > 0:
                    await asyncio.sleep(min(left, STEP if self._training else LOOK))
                    self.send_trains()

    def send_trains(self) -> None:
        """Send the next probe of each train, and judge where an answer is missed."""
        now, self._training = self._clock(), False
        doubtful = [host for host, one in self._records.items() if one.is_doubtful(now)]
        if not doubtful or not (self._agent.connected and self._agent.sync.fully_synced):
            return
        tunnels = self._tunnels()
        places = TRAINS
        for host in tunnels.keys() & doubtful:
            long = self._records[host].next_in_train(now) if places else None
            if long is not None:
                self._send(tunnels[host], now, long=long)
                self._training, places = True, places - 1
        self._judge_after(LOOK, tunnels, now)

    def probe_all(self) -> None:
        """Send each peer a burst of probes, and judge from time to time what was sent before."""
        now = self._clock()
        if not (self._agent.connected and self._agent.sync.fully_synced):
            for record in self._records.values():
                record.forget_waiting()
            self._looked = -math.inf
            return
        tunnels = self._tunnels()
        self._judge_after(PERIOD, tunnels, now)
        self._peers = {vtep.ofport: vtep for vtep in tunnels.values()}
        long = now - self._long_sent >= PERIOD
        self._long_sent = now if long else self._long_sent
        for number in range(BURST):
            for vtep in tunnels.values():
                self._send(vtep, now, long=long and not number)

    def _judge_after(self, pause: float, tunnels: Mapping[HostLabel, Vtep], now: float) -> None:
        if now - self._looked < pause:
            return
        for host in self._records.keys() - tunnels.keys():
            del self._records[host]
        paused, self._looked = now - self._looked >= 2 * PERIOD, now
        if not paused:
            for record in self._records.values():
                record.judge(now)
            self._tell(self._found(tunnels, now))

    def _tunnels(self) -> dict[HostLabel, Vtep]:
        vteps = self._agent.world.vteps
        chosen = sorted(self._probed(self._own, vteps))
        records = ((host, self._hosts.record(host)) for host in chosen)
        return {host: vteps[host] for host, one in records if one and one.answers_probes}

    def _send(self, vtep: Vtep, now: float, *, long: bool) -> None:
        self._number += 1
        size = self._sizes.of(Bridge.VXLAN) + ETHERNET if long else frames.SHORTEST
        out = PacketOut(
            data=frames.question(self._run, self._number, size),
            actions=frames.actions(vtep.ofport),
        )
        if self._agent.send(out):
            record = self._records.setdefault(vtep.host, TunnelRecord(now))
            record.sent(self._number, long=long, at=now)

    def _receive(self, ofport: int, frame: bytes) -> None:
        number, vtep = frames.answer_of(self._run, frame), self._peers.get(ofport)
        if number is not None and vtep is not None and vtep.host in self._records:
            self._records[vtep.host].answered(number, self._clock())

    def _found(self, tunnels: Mapping[HostLabel, Vtep], now: float) -> dict[HostLabel, str]:
        found = {}
        for host, record in self._records.items():
            if not record.is_silent(now):
                fault = record.fault(self._sizes.of(Bridge.VXLAN))
            elif self._echoes.get(host):
                fault = silence(tunnels[host].ip, self._port, self._counts.get(host, ()))
            else:
                fault = ""
            if fault:
                found[host] = fault
        return found

    def _tell(self, found: Mapping[HostLabel, str]) -> None:
        for host in found.keys() - self._faults.keys():
            log.warning("tunnel does not pass", extra=fields(peer=host, error=found[host]))
        for host in self._faults.keys() - found.keys():
            log.info("tunnel passes again", extra=fields(peer=host))
        if found != self._faults:
            self._faults = found
            self._board.set_faults("tunnel probes", by_host("tunnel", found))

    async def _count_arrivals(self) -> None:
        """Learn again and again whether anything comes in by the tunnels that may have a fault."""
        while True:
            now = self._clock()
            doubtful = {host for host, one in self._records.items() if one.is_doubtful(now)}
            for host in self._counts.keys() - doubtful:
                del self._counts[host]
            for host in doubtful:
                await self._count(host)
            await asyncio.sleep(PERIOD)

    async def _count(self, host: HostLabel) -> None:
        vtep = self._agent.world.vteps.get(host)
        if vtep is None:
            return
        try:
            received = await self._agent.switch.session.received_by(vtep.ofport)
        except (SwitchRefused, SwitchUnavailable) as exc:
            self._counting.failed(exc)
        else:
            self._counting.succeeded()
            self._counts.setdefault(host, deque(maxlen=COUNTS)).append(received)

    async def _ask_echoes(self) -> None:
        """Learn again and again which of the missed peers answer outside of the tunnel."""
        while True:
            now = self._clock()
            missed = [host for host, one in self._records.items() if one.is_doubtful(now)]
            self._echoes = {host: self._echoes[host] for host in missed if host in self._echoes}
            await asyncio.gather(*map(self._ask_echo, missed[:MAX_CONCURRENT]))
            await asyncio.sleep(LOOK if not missed else ECHO_AGAIN)

    async def _ask_echo(self, host: HostLabel) -> None:
        vtep = self._agent.world.vteps.get(host)
        if vtep is None:
            return
        try:
            self._echoes[host] = await self._echo(vtep.ip, SHORT)
        except HostError as exc:
            self._asking.failed(exc)
        else:
            self._asking.succeeded()
