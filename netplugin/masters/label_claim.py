"""Claims this host's label in the store: two hosts must not go by one label.

In comes the host record with the id of this host (`netplugin.masters.host_id`); the record is
written unless it is there already, or another host has the label. That one has it while its record
has another id and an agent of the label is registered; a record without an id, of an earlier
version, is adopted. The record is then kept, for as long as the agent runs.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from core import keys
from core.errors import Conflict, Invalid, StoreUnavailable
from core.ids import HostLabel
from core.logs import fields
from core.retry import REMOTE, Loop, Pace, retry
from objdb.api import Absent, Backend, Change, Committed, Entry, Put, Unchanged
from objdb.registration import TTL
from state import codec
from state.records import HostRecord

log = logging.getLogger(__name__)

AGENT_SERVICES: Final = (keys.SERVICE_NETPLUGIN, keys.SERVICE_VTEP, keys.SERVICE_AGENT_REST)
CHECK_EVERY: Final = 2.0
"""Seconds between checks that the host record exists and is this host's."""
_PACE: Final = Pace(longest=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTiming:
    """In seconds."""

    patience: float = TTL + 5.0
    """The registrations of an agent that was killed end within this time."""
    interval: float = 0.5


def has_claimed(record: HostRecord, own: HostRecord) -> bool:
    """Return whether a record under this host's label is another host's."""
    return bool(record.host_id) and record.host_id != own.host_id


async def claim_label(
    backend: Backend, own: HostRecord, *, takeover: bool = False, timing: LabelTiming | None = None
) -> None:
    """Write the host record; retry until the store is reachable.

    With `takeover` also if another host has the label. Raises Conflict if it has.
    """
    timing = timing or LabelTiming()
    deadline = asyncio.get_running_loop().time() + timing.patience

    async def attempt() -> bool:
        entry = await backend.get(keys.host(own.label))
        holder = None if entry is None or takeover else await _holder(backend, entry, own)
        if holder is None:
            return await _write(backend, entry, own)
        if asyncio.get_running_loop().time() > deadline:
            raise Conflict(_refusal(holder))
        log.info("host label in use, waiting", extra=fields(host=own.label))
        return False

    while not await retry(_writing(), attempt):  # noqa: ASYNC110 - another host is waited for
        await asyncio.sleep(timing.interval)


async def keep_label(
    backend: Backend,
    current: Callable[[], HostRecord],
    stored: Callable[[], HostRecord | None],
    *,
    interval: float = CHECK_EVERY,
) -> None:
    """Write the host record again, for ever, whenever the store no longer has it as it is.

    An operator may remove a host that is unreachable; it returns when it is reachable again. Its
    addresses change. `current` returns the record as it is to be, `stored` the one that this agent
    has read last. Raises Conflict when another host has taken the label over.
    """
    while True:
        await asyncio.sleep(interval)
        found, own = stored(), current()
        if found is None:
            log.warning("host record missing in the store, recreated", extra=fields(host=own.label))
            await claim_label(backend, own)
        elif has_claimed(found, own):
            await _check_taken_over(backend, own)
        elif found != own:
            await claim_label(backend, own)


async def _check_taken_over(backend: Backend, own: HostRecord) -> None:
    """Raise Conflict if the store has another host's record now: what was read may be older."""
    entry = await retry(_writing(), partial(backend.get, keys.host(own.label)))
    found = _readable(entry) if entry is not None else None
    if found is not None and has_claimed(found, own):
        raise Conflict(
            f"the host at {found.control_ip} has taken over the host label {own.label}: "
            "start this one with another --host"
        )


def _writing() -> Loop:
    return Loop(
        log, "host record not written", pace=_PACE, errors=StoreUnavailable, patience=REMOTE
    )


def _refusal(holder: HostRecord) -> str:
    return (
        f"the host label {holder.label} belongs to another host, at {holder.control_ip} with "
        f"tunnels from {holder.vtep_ip}, and its agent is registered: start this one with another "
        "--host, or end that agent, or start this one once with --takeover-label"
    )


async def _holder(backend: Backend, entry: Entry, own: HostRecord) -> HostRecord | None:
    """Return the record of another host that has the label, None if it is free or this host's."""
    record = _readable(entry)
    if record is None or not has_claimed(record, own):
        return None
    return record if await _is_registered(backend, own.label) else None


def _readable(entry: Entry) -> HostRecord | None:
    """Return a record; None for one that cannot be read, and so is nobody's claim."""
    try:
        return codec.decode_host(entry.key, entry.value)
    except Invalid:
        return None


async def _is_registered(backend: Backend, label: HostLabel) -> bool:
    for service in AGENT_SERVICES:
        found = await backend.snapshot(keys.services(service))
        for key, one in found.entries.items():
            with suppress(Invalid):  # another host's agent may write anything; masters tell of it
                if codec.decode_service(key, one.value).hostname == label:
                    return True
    return False


async def _write(backend: Backend, entry: Entry | None, own: HostRecord) -> bool:
    """Write the record unless it has changed since it was read; False if it has."""
    key, value = keys.host(own.label), codec.encode(own)
    # Every agent reads each write: 1 000 agents that start together would read a million.
    if entry is not None and entry.value == value:
        return True
    check = Absent(key) if entry is None else Unchanged(key, entry.rev)
    (outcome,) = await backend.commit([Change((check,), (Put(key, value),))])
    return isinstance(outcome, Committed)
