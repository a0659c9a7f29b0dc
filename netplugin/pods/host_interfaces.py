"""`host1`: the second interface, to the host, of pods on networks without a gateway.

In comes an endpoint whose network has no gateway. Its pod gets a link to the vxlan bridge
(`hport<N>` at the host's end) with an address on the host's private network, and its default route
by the host. The port is put into the World, and `ofnet.pipelines.features.host_access` connects it
to `contivh0`. Bandwidth, burst and DSCP of the pod's group apply to it. A missing port is recreated
here; stale ports and rate limits are handled with the pod's other port
(`netplugin.pods.pod_ports`).
"""

import logging

from core.errors import SwitchUnavailable
from core.logs import fields
from core.tasks import unbroken
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.links.pod_links import PodLink
from netplugin.ovsdb import PortRow, PortSpec
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.world.bridges import port_names
from ofnet.world import AccessPort, Bridge

log = logging.getLogger(__name__)


class HostInterfaces:
    """The pods' interfaces to this host. One per agent."""

    def __init__(self, host: PodHost, pod_ports: PodPorts, *, interval: float) -> None:
        self._registry = host.registry
        self._links = host.links
        self._ovsdb = host.ovsdb
        self._pod_ports = pod_ports
        self._world = host.world
        self._reconciler = host.reconciler
        self._tx_off = host.settings.tx_off
        self._interval = interval

    async def attach(self, entry: JournalEntry, mtu: int) -> None:
        """Create a pod's interface to the host; return when the switch has its flows.

        Raises SwitchUnavailable while `contivh0` does not exist.
        """
        host = self._world.endpoints.host_port
        if host is None:
            raise SwitchUnavailable(f"host port {port_names.HOST_PORT} does not exist yet")
        name, mac = (
            port_names.access_name(entry.port),
            port_names.private_mac(host.subnet, entry.port),
        )
        await unbroken(
            self._links.add_pod_link(
                PodLink(
                    host_name=name,
                    ifname=port_names.ACCESS_IFNAME,
                    netns_path=entry.netns,
                    mtu=mtu,
                    tx_off=self._tx_off,
                )
            )
        )
        address = port_names.private_address(host.subnet, entry.port)
        await unbroken(
            self._links.configure_pod(
                entry.netns, port_names.ACCESS_IFNAME, mac, [address], [host.address]
            )
        )
        await unbroken(self._add_row(entry))
        self._publish(entry, await self._ovsdb.wait_ofport(name))
        await self._reconciler.flush()

    def publish(self) -> None:
        """Put the interfaces that exist into the World."""
        rows = self._rows()
        for entry in self._registry.idle():
            row = rows.get(port_names.access_name(entry.port))
            # A reclaimed endpoint has no port in the World: its address may belong to another pod.
            published = self._world.endpoints.port(entry.key) is not None
            if published and row is not None and row.ofport is not None and row.ofport > 0:
                self._publish(entry, row.ofport)

    async def run(self) -> None:
        """Reconcile them for ever."""
        await ReconcileLoop(
            name="interfaces to the host",
            converge=self.converge,
            observe=self._facts,
            triggers=(self._ovsdb.changed, self._reconciler.records.groups_changed),
            interval=self._interval,
        ).run()

    async def converge(self) -> object:
        """Recreate the ports of links that lost theirs, once; return the state that resulted."""
        links = await self._links.links()
        for entry in self._registry.idle():
            name = port_names.access_name(entry.port)
            if name in links and name not in self._rows():
                async with self._registry.lock(entry.spec.container_id):
                    if self._registry.get(entry.key) is entry:
                        log.warning("port missing in OVSDB, recreated", extra=fields(port=name))
                        await self._add_row(entry)
        self.publish()
        return self._facts()

    def _facts(self) -> object:
        rows = self._rows()
        groups = {
            entry.key: (self._dscp(entry), self._pod_ports.metered(entry))
            for entry in (self._registry.idle() if rows else ())
            if port_names.access_name(entry.port) in rows
        }
        return rows, groups

    def _rows(self) -> dict[str, PortRow]:
        rows = self._ovsdb.ports(Bridge.VXLAN)
        return {name: row for name, row in rows.items() if port_names.is_access(name)}

    def _publish(self, entry: JournalEntry, ofport: int) -> None:
        host = self._world.endpoints.host_port
        if host is not None:
            mac = port_names.private_mac(host.subnet, entry.port)
            ip = port_names.private_address(host.subnet, entry.port).ip
            rate, burst = self._pod_ports.metered(entry)
            port = AccessPort(
                ofport=ofport, mac=mac, ip=ip, dscp=self._dscp(entry), rate=rate, burst=burst
            )
            self._world.endpoints.put_access(entry.key, port)

    def _dscp(self, entry: JournalEntry) -> int:
        group = self._pod_ports.group(entry)
        return 0 if group is None else group.dscp

    async def _add_row(self, entry: JournalEntry) -> None:
        rate, burst = self._pod_ports.limits(entry)
        await self._ovsdb.add_port(
            Bridge.VXLAN,
            PortSpec(
                name=port_names.access_name(entry.port),
                ofport_request=port_names.access_ofport(entry.port, self._ovsdb.numbers()),
                external_ids={port_names.ENDPOINT_ID: f"{port_names.ACCESS_IFNAME}-{entry.key}"},
                policing_rate=rate,
                policing_burst=burst,
            ),
        )
