"""Tells whether an ADD can be carried out now: the CNI verb STATUS, and the checks of `/readyz`.

An ADD needs Open vSwitch, the store, a leading netmaster, and what else is looked at every few
seconds (`netplugin.diagnostics.host_checks`). Without Open vSwitch existing pods may
lack what the agent answers for them (ARP, DNS, first packets to services), which has a code of its
own.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from core import keys
from core.errors import ContivError
from daemons.health import Check
from netplugin.cni.errors import LIMITED, NotReady
from netplugin.masters.master_api import MasterApi
from netplugin.ovsdb import Ovsdb
from objdb.api import Backend
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge

STORE_ANSWER: Final = 2.5
"""Seconds for the store to answer: less than `/readyz` gives each check (`daemons.health.ANSWER`),
so that it says what to look at; runtimes ask every few seconds."""

NOTHING: Final[Mapping[str, Check]] = MappingProxyType({})


class Readiness:
    """What an ADD needs. One per agent; `store_answer` in seconds, `further` checks by name."""

    def __init__(
        self,
        store: Backend,
        master: MasterApi,
        ovsdb: Ovsdb,
        bridges: Mapping[Bridge, BridgeAgent],
        store_answer: float = STORE_ANSWER,
        *,
        further: Mapping[str, Check] = NOTHING,
    ) -> None:
        self._store = store
        self._master = master
        self._ovsdb = ovsdb
        self._bridges = bridges
        self._store_answer = store_answer
        self.known: Final = frozenset(further)
        """The names of the checks that ask nobody when they are carried out."""
        self._further = further

    async def status(self) -> None:
        """Return if an ADD can be carried out. Raises NotReady."""
        for check in self.checks().values():
            await check()

    def checks(self) -> Mapping[str, Check]:
        """Return what an ADD needs, one by one; each check raises NotReady."""
        return {
            "ovsdb": self._ovsdb_answers,
            **{f"openflow {one}": partial(self._bridge_answers, one) for one in self._bridges},
            # The last known leader is kept while the store is away, so the store is asked as well.
            "store": self._store_answers,
            "netmaster": self._master_leads,
            **self._further,
        }

    async def _ovsdb_answers(self) -> None:
        if not self._ovsdb.connected:
            raise NotReady("OVSDB does not answer: is Open vSwitch running?", code=LIMITED)

    async def _bridge_answers(self, bridge: Bridge) -> None:
        if not self._bridges[bridge].connected:
            raise NotReady(f"bridge {bridge} has no OpenFlow session", code=LIMITED)

    async def _store_answers(self) -> None:
        try:
            async with asyncio.timeout(self._store_answer):
                await self._store.get(keys.LEADER_LOCK)
        except TimeoutError as exc:
            reason = self._store.trouble()
            raise NotReady(
                f"the store does not answer within {self._store_answer:g} s: is it up, and does a "
                f"firewall let this host reach it?" + (f" Last heard: {reason}" if reason else "")
            ) from exc
        except ContivError as exc:
            raise NotReady(str(exc)) from exc

    async def _master_leads(self) -> None:
        try:
            await self._master.ready()
        except ContivError as exc:
            raise NotReady(str(exc)) from exc
