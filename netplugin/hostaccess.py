"""The host's own port for its pods: `contivh0`, its address, and the masquerading behind it.

The cluster's settings name a private network (`pvtSubnet`, the same on every host). Its last
address is the host's, on `contivh0`; a pod behind port N is address N of it to its host
(`netplugin.ports`; the flows that translate are `ofnet.pipelines.vrouter`'s). What pods send
beyond the host leaves under its own address by one rule of iptables (`netplugin.firewall`). All of
it is kept as it should be, whoever changes it: OVSDB's report and the settings are followed, link
and rules are looked at on the audit interval. The World is told once the port is there.
"""

import asyncio
import logging
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from core.errors import ContivError, HostError
from core.logs import fields
from core.tasks import backoff
from netplugin import ports
from netplugin.firewall import Chain, Firewall, Rule
from netplugin.netns import HostLinks, HostRoute
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.reconcile import Reconciler
from netplugin.world import WorldBuilder
from ofnet.world import Bridge, HostPort

log = logging.getLogger(__name__)

HOST_VLAN: Final = 2
"""The port's tag, as in the original; its flows do not ask for it."""
PORT_READY: Final = 10.0
"""Seconds the port may take to get its OpenFlow number."""
POSTROUTING: Final = Chain(table="nat", name="POSTROUTING")
CHAINS: Final = (POSTROUTING,)
"""All the chains that ever hold a rule of ours."""
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")

_SPEC: Final = PortSpec(
    name=ports.HOST_PORT,
    type="internal",
    ofport_request=ports.HOST_OFPORT,
    tag=HOST_VLAN,
    external_ids={ports.ENDPOINT_ID: ports.HOST_ENDPOINT_ID},
)


def masquerade(private: IPv4Network) -> Rule:
    """Return the rule that has pods leave the host under its own address."""
    return Rule(
        chain=POSTROUTING,
        match=("-s", str(private), "!", "-o", ports.HOST_PORT),
        target=("-j", "MASQUERADE"),
    )


class HostAccess:
    """The host's port. One per agent; `interval` is how often link and rules are looked at.

    `address` is what pods see their host speak under: answers to its private address are dropped,
    lest a pod reach what else that network stands for.
    """

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        links: HostLinks,
        firewall: Firewall,
        world: WorldBuilder,
        reconciler: Reconciler,
        address: IPv4Address,
        interval: float,
    ) -> None:
        self._ovsdb = ovsdb
        self._links = links
        self._firewall = firewall
        self._world = world
        self._reconciler = reconciler
        self._address = address
        self._interval = interval
        self._look = asyncio.Event()
        self._told: HostPort | None = None

    async def run(self) -> None:
        """Keep all of it, for ever; failures are tried again."""
        async with asyncio.TaskGroup() as following:
            following.create_task(self._follow(self._ovsdb.changed))
            following.create_task(self._follow(self._reconciler.settings_changed))
            await self._keep()

    async def _follow(self, news: Callable[[], asyncio.Event]) -> None:
        while True:
            changed = news()
            self._look.set()
            await changed.wait()

    async def _keep(self) -> None:
        waits = backoff()
        while True:
            try:
                await self.converge()
            except ContivError as exc:
                log.warning("host access not in step", extra=fields(error=exc))
                await asyncio.sleep(next(waits))
            else:
                waits = backoff()
                await self._news()

    async def _news(self) -> None:
        """Wait for something that concerns the port, at most until the next audit."""
        try:
            async with asyncio.timeout(self._interval):
                while self._port() == self._told:
                    self._look.clear()
                    await self._look.wait()
        except TimeoutError:
            return

    def _port(self) -> HostPort | None:
        """Return the port as it is to be told; None while it is not as it should be."""
        private, row = self._world.private_subnet, self._ovsdb.ports().get(ports.HOST_PORT)
        if private is None or row is None or not _is_right(row) or row.ofport is None:
            return None
        mac = ports.private_mac(private, ports.HOST_NUMBER)
        return HostPort(ofport=row.ofport, mac=mac, subnet=private)

    async def converge(self) -> None:
        """Make the port and what belongs to it as they should be, once. Raises ContivError."""
        private = self._world.private_subnet
        if private is None:
            return
        await self._ensure_port()
        await self._ensure_link()
        mac = ports.private_mac(private, ports.HOST_NUMBER)
        address = ports.private_address(private, ports.HOST_NUMBER)
        await self._links.configure_host_link(ports.HOST_PORT, mac, [address])
        route = HostRoute(subnet=private, source=self._address)
        await self._links.ensure_routes(ports.HOST_PORT, [route])
        self._told = self._port()
        self._world.set_host_port(self._told)
        self._reconciler.wake()
        if await self._firewall.keep([masquerade(private)]):
            log.info("host access rules made", extra=fields(subnet=private))

    async def _ensure_port(self) -> None:
        row = self._ovsdb.ports().get(ports.HOST_PORT)
        if row is None or not _is_right(row):
            await self._ovsdb.add_port(Bridge.VXLAN, _SPEC)
            log.info("host port added", extra=fields(port=ports.HOST_PORT))
        await self._ovsdb.wait_ofport(ports.HOST_PORT, PORT_READY)

    async def _ensure_link(self) -> None:
        """Have the port made anew if somebody removed its link; the switch does not see that.

        Raises HostError then: the switch must have seen the old port go before it is made again.
        """
        if ports.HOST_PORT not in await self._links.links():
            await self._ovsdb.delete_port(Bridge.VXLAN, ports.HOST_PORT)
            raise HostError(f"link {ports.HOST_PORT} was gone, its port is made again")


def warn_unless_forwarding(switch: Path = FORWARDING) -> None:
    """Say so if this host forwards no packets: its pods reach nobody beyond it then."""
    if switch.read_text(encoding="ascii").strip() == "0":
        log.warning("pods reach nobody outside: net.ipv4.ip_forward is 0 on this host")


def _is_right(row: PortRow) -> bool:
    return (row.bridge, row.type, row.tag, dict(row.external_ids)) == (
        Bridge.VXLAN,
        _SPEC.type,
        _SPEC.tag,
        dict(_SPEC.external_ids),
    )
