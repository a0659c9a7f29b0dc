"""Tells when others changed this host's firewall: the agent's rules are set again at once.

In come the kernel's events about nftables, which rules of iptables-nft are as well, and what the
tables of the older iptables hold, which raises no event; out goes an event for the loops
that keep rules (`netplugin.bridges.reconcile_loop`). Nothing here knows what the rules are.
"""

# A removal counts if it concerns a chain of the agent's own or one of those of the kernel, in which
# the agent has rules that lead there: kube-proxy for one replaces the contents of its chains all
# the time. So does a new rule in one of them, which may drop what a rule of the agent behind it
# accepts; and a new chain that the kernel asks, or a new policy of one: a firewall that starts may
# drop what pods send, and the host then says so. The kernel names who asked for a change by the
# port of its netlink socket, the process id as a rule: what the agent's own programs changed does
# not count.
#
# Who only looks at the rules of others (`netplugin.bridges.host.forward_check`) asks for each
# change but those in iptables' table `nat`: no rule there drops, and a proxy for services has all
# of its own there.

import asyncio
import ctypes
import errno
import logging
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Never

from core.change_notifier import ChangeNotifier
from core.retry import Loop, retry
from netplugin.kernel.netlink.events import listening

log = logging.getLogger(__name__)

OWN_CHAINS: Final = "CONTIV"
"""What the names of all chains of the agent begin with, in lower case those of its tables."""
HOOKS: Final = frozenset({"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"})
QUIET: Final = 0.1
"""Seconds after the first event in which others are taken for the same change."""
ABSENT: Final = 30.0
"""Seconds until a kernel without netfilter is asked again."""
LOOK: Final = 0.5
"""Seconds between two readings of the older iptables' tables."""
SELDOM: Final = 5.0
"""The same where there are so many rules that reading them takes long."""
SHARE: Final = 0.01
"""The part of a processor that the readings may take."""

_GROUP: Final = 1 << 6
"""The events of nftables: the bit of NFNLGRP_NFTABLES, 7 (linux/netfilter/nfnetlink.h)."""
_NETFILTER: Final = 12
"""NETLINK_NETFILTER (linux/netlink.h)."""
_SUBSYSTEM: Final = 10
_HEADER: Final = struct.Struct("=IHHII")
_FAMILY: Final = 4
"""The size of a nfgenmsg, which follows the header."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_DELETED_TABLE: Final = 2
_NEW_CHAIN: Final = 3
_DELETED_CHAIN: Final = 5
_NEW_RULE: Final = 6
_DELETED_RULE: Final = 8
_CHAIN_NAME: Final = {_DELETED_CHAIN: 3, _NEW_RULE: 2, _DELETED_RULE: 2}
"""The attribute with the chain's name in each message (NFTA_CHAIN_NAME, NFTA_RULE_CHAIN)."""
_TABLE_NAME: Final = 1
"""The attribute with the table's (NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE)."""
_CHAIN_HOOK: Final = 4
"""NFTA_CHAIN_HOOK: the kernel asks this chain by itself."""
NAT: Final = "nat"
"""The table of iptables of which no rule drops."""


class FirewallChange(NamedTuple):
    """A change: the port of who asked for it, and of what chain of which table."""

    port: int
    chain: str
    table: str = ""


_UNKNOWN: Final = FirewallChange(-1, "")
"""What stands for events that did not fit: a removal of a table by nobody in particular."""
_RECEIVE: Final = 1 << 18
_BUFFER: Final = 1 << 21

LEGACY_NAMES: Final = {
    4: Path("/proc/net/ip_tables_names"),
    6: Path("/proc/net/ip6_tables_names"),
}
"""The files in which the kernel names the tables of the older iptables, by family."""
_LEVELS: Final = {
    4: (socket.AF_INET, socket.IPPROTO_IP),
    6: (socket.AF_INET6, socket.IPPROTO_IPV6),
}
_GET_INFO: Final = 64
"""IPT_SO_GET_INFO and IP6T_SO_GET_INFO."""
_INFO_SIZE: Final = 84
"""The size of an ipt_getinfo: name, hooks, where each begins and ends, number of rules, size."""
_GET_ENTRIES: Final = 65
"""IPT_SO_GET_ENTRIES and IP6T_SO_GET_ENTRIES."""
_ENTRIES: Final = struct.Struct("=32sI4x")
"""The beginning of an ipt_get_entries: the table's name and its size."""
_INFO_END: Final = struct.Struct("=I")
_ENTRY: Final = {4: (90, 96), 6: (142, 152)}
"""Where an ipt_entry and an ip6t_entry have the size of all of it, and two counters of 8 bytes."""
_SIZE: Final = struct.Struct("=H")
_COUNTERS: Final = 16
_libc: Final = ctypes.CDLL(None, use_errno=True)

_own: deque[int] = deque(maxlen=256)


def note_own(process: int) -> None:
    """Note a program that the agent runs to change rules."""
    _own.append(process)


def changes(data: bytes) -> Iterator[FirewallChange]:
    """Yield who asked for each change in some netlink messages, and of which chain.

    The chain is "" where a whole table is removed, and for new chains that the kernel asks.
    """
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, port = _HEADER.unpack_from(data, at)
        message = data[at + _HEADER.size + _FAMILY : at + length]
        if kind >> 8 == _SUBSYSTEM:
            what, table = kind & 0xFF, _text(message, _TABLE_NAME)
            if what == _DELETED_TABLE:
                yield FirewallChange(port, "", table)
            elif what == _NEW_CHAIN:
                if _held(message, _CHAIN_HOOK) is not None:
                    yield FirewallChange(port, "", table)
            elif what in _CHAIN_NAME:
                yield FirewallChange(port, _text(message, _CHAIN_NAME[what]), table)
        at += max(length + 3 & ~3, _HEADER.size)


def concerns(found: Iterable[FirewallChange], own: Iterable[int]) -> bool:
    """Return whether one of some changes may concern the agent's rules, and is not its own."""
    ours = frozenset(own)
    return any(
        one.port not in ours
        and (not one.chain or one.chain in HOOKS or one.chain.upper().startswith(OWN_CHAINS))
        for one in found
    )


def filters(found: Iterable[FirewallChange], own: Iterable[int]) -> bool:
    """Return whether others made one of some changes, and where rules may drop."""
    ours = frozenset(own)
    return any(one.port not in ours and one.table != NAT for one in found)


def _text(message: bytes, wanted: int) -> str:
    held = _held(message, wanted) or b""
    return held.rstrip(b"\0").decode("utf-8", "replace")


def _held(message: bytes, wanted: int) -> bytes | None:
    """Return what an attribute of a message holds; None if it is not there."""
    at = 0
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind & 0x3FFF == wanted:
            return message[at + _ATTRIBUTE.size : at + length]
        at += max(length + 3 & ~3, _ATTRIBUTE.size)
    return None


def legacy_tables() -> Mapping[tuple[int, str], bytes]:
    """Return what tables of the older iptables hold, by family and name: of `nat` its size alone.

    The size of another one is not enough: a rule may be replaced, or a policy, which drop then.
    """
    found = {}
    for version, (family, level) in _LEVELS.items():
        with suppress(OSError):  # this kernel has no such tables, or not yet
            tables = LEGACY_NAMES[version].read_text(encoding="ascii").split()
            if not tables:
                continue
            with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
                for table in tables:
                    info = _info(sock, level, table)
                    if table != NAT:
                        info += _rules(sock, level, table, version, info)
                    found[version, table] = info
    return found


def _info(sock: socket.socket, level: int, table: str) -> bytes:
    """Return the kernel's description of a table: where its chains begin, its number of rules."""
    return _option(sock, level, _GET_INFO, table.encode("ascii"), _INFO_SIZE)


def _rules(sock: socket.socket, level: int, table: str, version: int, info: bytes) -> bytes:
    """Return a table's rules as the kernel keeps them, without their counters."""
    (size,) = _INFO_END.unpack_from(info, _INFO_SIZE - _INFO_END.size)
    asked = _ENTRIES.pack(table.encode("ascii"), size)
    held = _option(sock, level, _GET_ENTRIES, asked, _ENTRIES.size + size)[_ENTRIES.size :]
    return without_counters(held, version)


def without_counters(held: bytes, version: int) -> bytes:
    """Return the entries of a table, each with counters of 0."""
    (size_at, counters_at), kept, at = _ENTRY[version], bytearray(held), 0
    while at + counters_at + _COUNTERS <= len(kept):
        kept[at + counters_at : at + counters_at + _COUNTERS] = bytes(_COUNTERS)
        (length,) = _SIZE.unpack_from(kept, at + size_at)
        if not length:
            break
        at += length
    return bytes(kept)


def _option(sock: socket.socket, level: int, option: int, asked: bytes, length: int) -> bytes:
    # By the C library: Python's `getsockopt` passes nothing in, and the kernel needs the name.
    held = ctypes.create_string_buffer(asked, length)
    size = ctypes.c_uint32(length)
    if _libc.getsockopt(sock.fileno(), level, option, held, ctypes.byref(size)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return held.raw


def until_next(took: float) -> float:
    """Return the seconds until the tables are read again, after a reading that took so long."""
    return min(max(LOOK, took / SHARE), SELDOM)


class FirewallWatch:
    """Watches the rules of this host. One per agent."""

    def __init__(self) -> None:
        self._lost = ChangeNotifier()
        self._loop = Loop(
            log,
            "events of the firewall not followed",
            errors=OSError,
            remedy="until then what others remove is back after --audit-interval only",
        )
        self._changed = ChangeNotifier()

    def lost(self) -> asyncio.Event:
        """Return an event that is set when others change the firewall from now on."""
        return self._lost.next

    def changed(self) -> asyncio.Event:
        """Return an event that is set when others change any rule that may drop from now on."""
        return self._changed.next

    async def run(self) -> None:
        """Watch, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(retry(self._loop, self._follow))
            tasks.create_task(self._look())

    async def _follow(self) -> Never:
        with await self._events() as events:
            if self._loop.works():
                self._lost.notify()  # what happened meanwhile is not known
            while True:
                await _readable(events)
                # Until the change is complete, and who made it is known: the agent notes its own
                # programs a moment after they began.
                await asyncio.sleep(QUIET)
                found = _read(events)
                if concerns(found, _own):
                    log.debug("the firewall was changed by others")
                    self._lost.notify()
                if filters(found, _own):
                    self._changed.notify()

    async def _events(self) -> socket.socket:
        """Return a socket that hears of changes, once this kernel has nftables.

        One without has no such events, which is no fault: netfilter may be loaded later.
        """
        while (events := _listening()) is None:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(ABSENT)
        return events

    async def _look(self) -> None:
        # In a thread: ten thousand rules take 8 ms, in which the agent would serve nobody.
        before, took = await asyncio.to_thread(_timed_tables)
        while True:
            await asyncio.sleep(until_next(took))
            now, took = await asyncio.to_thread(_timed_tables)
            if now != before:
                # The agent's own changes count too: to set the same rules again changes nothing.
                self._lost.notify()
                self._changed.notify()
            before = now


def _timed_tables() -> tuple[Mapping[tuple[int, str], bytes], float]:
    """Return what the older iptables' tables hold, and the seconds of processor that it took."""
    began = time.thread_time()
    return legacy_tables(), time.thread_time() - began


def _listening() -> socket.socket | None:
    """Return a socket that hears of changes; None if the kernel has no netfilter."""
    try:
        return listening(_NETFILTER, _GROUP, _BUFFER)
    except OSError as exc:
        if exc.errno != errno.EPROTONOSUPPORT:
            raise
        return None


async def _readable(sock: socket.socket) -> None:
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(sock)


def _read(events: socket.socket) -> list[FirewallChange]:
    """Return the changes that there are events of now."""
    found: list[FirewallChange] = []
    while True:
        try:
            found += changes(events.recv(_RECEIVE))
        except BlockingIOError:
            return found
        except OSError as exc:
            if exc.errno != errno.ENOBUFS:
                raise
            found.append(_UNKNOWN)  # events were lost
