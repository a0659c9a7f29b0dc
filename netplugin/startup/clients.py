"""The agent's ways out: opened first, closed last.

In come the command line's settings; out come store, OVSDB and kernel, each of them answering. Who
uses them is composed by `netplugin.startup.dataplane`, `netplugin.startup.host_services` and
`netplugin.startup.pod_services`.
"""

import logging
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from core import keys
from core.logs import fields
from netplugin.bridges.host_ports import HostPorts
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import Ovsdb
from netplugin.startup.context import Context
from objdb.api import Backend
from objdb.connect import connect
from objdb.wait_for_store import wait_for_store
from state import schema

log = logging.getLogger(__name__)

OVSDB_WAIT: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Store, OVSDB, kernel, and what takes the last two."""

    store: Backend
    ovsdb: Ovsdb
    links: KernelLinks
    host_ports: HostPorts


async def open_doors(life: Context) -> Clients:
    """Open all of them. Raises ContivError for a store or an OVSDB that cannot be used."""
    settings = life.settings
    store = connect(settings.store)
    life.stack.push_async_callback(store.close)
    stamp = await wait_for_store(settings.store, store, keys.SCHEMA)
    if stamp is not None:
        schema.check_version(stamp.value)
    links = life.stack.enter_context(closing(KernelLinks()))
    ovsdb = await _open_ovsdb(life)
    return Clients(store=store, ovsdb=ovsdb, links=links, host_ports=HostPorts(ovsdb, links))


async def _open_ovsdb(life: Context) -> Ovsdb:
    log.info("waiting for Open vSwitch", extra=fields(path=life.settings.ovsdb))
    ovsdb = await Ovsdb.connect(life.settings.ovsdb, wait=OVSDB_WAIT)
    await life.stack.enter_async_context(ovsdb)
    following = life.sup.supervise("ovsdb replica", ovsdb.follow())
    life.stack.callback(following.cancel)  # its end would hide why the agent ends
    return ovsdb
