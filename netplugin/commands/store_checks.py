"""The checks of `netplugin preflight` that read the store: may this host join the cluster.

In come the agent's settings; each check reads the store and compares it with this host. Next is
`netplugin.commands.findings`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from functools import partial
from ipaddress import IPv4Network
from typing import Final

from core import keys
from core.errors import Conflict, ContivError, HostError, StoreUnavailable
from core.ids import HostLabel
from core.patience import patient
from core.version import VERSION
from netplugin.bridges.vxlan.path_mtu import probe_paths
from netplugin.commands.findings import Note
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.packets import icmp
from netplugin.pods.mtu import underlay_of
from netplugin.settings import AgentSettings
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import check_host, private_subnet
from netplugin.world.peers import Address, end_of
from objdb.api import Backend
from objdb.connect import connect, tls_context
from objdb.examination import strict_fault
from objdb.wait_for_store import wait_for_store
from ofnet.world import Bridge
from state import codec, schema
from state.records import DEFAULT_PRIVATE_SUBNET, GlobalRecord, HostRecord

STORE_WAIT: Final = patient(10.0)
VERSIONS: Final = (
    "docs/upgrade.md: releases that follow each other work together; replace the rest, and see "
    "`netctl host ls`"
)


async def store(wanted: AgentSettings) -> str:
    """Check that the store answers and has no other host of this name."""
    async with _opened(wanted) as backend:
        stamp = await wait_for_store(wanted.store, backend, keys.SCHEMA)
        schema.check(stamp.value if stamp else None)
        entry = await backend.get(keys.host(wanted.host))
    record = codec.decode(entry.key, entry.value) if entry else None
    if isinstance(record, HostRecord) and record.vtep_ip != str(wanted.vtep_ip):
        raise Conflict(f"a host {wanted.host} with tunnels from {record.vtep_ip} is known already")
    return f"{wanted.store} answers" + ("" if stamp else ", no netmaster has used it yet")


async def certificates(wanted: AgentSettings) -> str | Note:
    """Check what clients that take RFC 5280 strictly, as Python 3.13 does, say of the store's CA.

    Daemons do not check so themselves (`core.net.tls_trust`).
    """
    try:
        if tls_context(wanted.store) is None:
            return "the store is asked without TLS"
        for member in wanted.store.members:
            context = tls_context(wanted.store)
            if context is not None and (fault := await strict_fault(member, context)):
                return Note(f"store {member}: daemons accept it, strict clients refuse it: {fault}")
    except ContivError as exc:
        return _unread(exc)
    return "strict clients accept those of the store as well"


async def versions(wanted: AgentSettings) -> str | Note:
    """Compare this program's release with those of all daemons: is an upgrade half done."""
    try:
        async with _opened(wanted) as backend:
            entries = (await backend.snapshot(keys.SERVICES)).entries.values()
        running = [codec.decode_service(entry.key, entry.value) for entry in entries]
    except ContivError as exc:
        return _unread(exc)
    others: dict[str, set[str]] = {}
    for one in running:
        if one.version not in ("", VERSION):
            what = f"{one.service.partition('.')[0]} at {one.address}"
            others.setdefault(one.version, set()).add(what)
    if not others:
        return f"all daemons that run are of {VERSION}"
    named = (f"{', '.join(sorted(who))} of {what}" for what, who in sorted(others.items()))
    return Note(f"this program is of {VERSION}, others are not: {'; '.join(named)}")


async def private_network(wanted: AgentSettings) -> str | Note:
    """Check that the private network of this host's pods is not routed elsewhere."""
    try:
        private = await _private(wanted)
    except ContivError as exc:
        return _unread(exc)
    with closing(KernelLinks()) as links:
        others = [
            f"{subnet} by {link}"
            for subnet, link in await links.routed()
            if subnet.prefixlen and subnet.overlaps(private) and link != port_names.HOST_PORT
        ]
    if others:
        raise HostError(f"{private} stands for this host's pods, and leads elsewhere: {others[0]}")
    return f"{private} is free"


async def paths(wanted: AgentSettings) -> str | Note:
    """Check that the longest tunnel packets reach the known hosts."""
    try:
        others = await _others(wanted)
    except ContivError as exc:
        return _unread(exc)
    peers = _ends(others, wanted)
    with closing(KernelLinks()) as links:
        underlay = await underlay_of(links, wanted.vtep_ips, wanted.uplinks)
    mtu = wanted.mtu or underlay.carries(Bridge.VXLAN)
    found = await probe_paths(peers, mtu, partial(icmp.passes, sources=wanted.vtep_ips))
    for host, fault in found.faults.items():
        raise HostError(f"path to {host}: {fault}")
    return f"{len(peers)} other hosts, pods' packets of {mtu} bytes pass where short ones do"


async def _private(wanted: AgentSettings) -> IPv4Network:
    async with _opened(wanted) as backend:
        entry = await backend.get(keys.GLOBAL_CONFIG)
    record = codec.decode(entry.key, entry.value) if entry else None
    if not isinstance(record, GlobalRecord):
        return IPv4Network(DEFAULT_PRIVATE_SUBNET)
    return private_subnet(record) or IPv4Network(DEFAULT_PRIVATE_SUBNET)


async def _others(wanted: AgentSettings) -> list[HostRecord]:
    async with _opened(wanted) as backend:
        entries = (await backend.snapshot(keys.HOSTS)).entries.values()
    records = [codec.decode(entry.key, entry.value) for entry in entries]
    hosts = [record for record in records if isinstance(record, HostRecord)]
    for host in hosts:
        check_host(host)
    return [one for one in hosts if one.label != wanted.host and end_of(one) is not None]


def _ends(hosts: Iterable[HostRecord], wanted: AgentSettings) -> dict[HostLabel, Address]:
    """Return where the tunnels to other hosts end. Raises HostError where none is possible."""
    families = {one.version for one in wanted.vtep_ips}
    found: dict[HostLabel, Address] = {}
    for host in hosts:
        end = end_of(host, families)
        if end is None:
            raise HostError(
                f"host {host.label} has its tunnels at {host.vtep_ip}, of the other family than "
                f"{wanted.vtep_ip}: give one of the two addresses of both with --vtep-ip"
            )
        found[host.label] = end
    return found


def _unread(exc: ContivError) -> Note:
    return Note(f"not looked at: {exc}")


@asynccontextmanager
async def _opened(wanted: AgentSettings) -> AsyncIterator[Backend]:
    backend = connect(wanted.store)
    try:
        async with asyncio.timeout(STORE_WAIT):
            yield backend
    except TimeoutError as exc:
        raise StoreUnavailable(f"{wanted.store}: no answer in {STORE_WAIT:g} s") from exc
    finally:
        await backend.close()
