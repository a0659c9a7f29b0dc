"""What is looked at every few seconds on this host, beside what its loops keep.

In come the agent's clients; out come the checks that `netplugin.diagnostics.host_checks` repeats.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from core import keys
from core.errors import HostError, SwitchUnavailable
from core.net.unix_socket import is_served
from core.patience import patient
from core.retry import Loops
from daemons.health import Check
from netplugin.bridges.host.host_access import (
    FORWARDING6,
    FORWARDING6_OFF,
    FORWARDING_OFF,
    forwards,
    unheard_advertisements,
)
from netplugin.cni.errors import LIMITED, NOT_AVAILABLE, NotReady
from netplugin.diagnostics.host_checks import HostCheck, HostChecks
from netplugin.kernel import reverse_paths
from netplugin.kernel.firewall.foreign_rules import outside_links
from netplugin.kernel.packets.address_conflict import AddressConflict
from netplugin.kernel.routes import router_advertisements
from netplugin.masters.leader import LeaderClient
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Tasks
from netplugin.startup.dataplane import Dataplane
from netplugin.world.bridges import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.world import Bridge, FwdMode
from state.records import Encap

RESTART: Final = "look at its log, restart openvswitch-switch"
PATIENCE: Final = patient(4.0)
"""Seconds for which a program must have been silent: one that is busy is not dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHealth(Subsystem):
    """The checks of this host, and the faults of its loops."""

    looks: HostChecks
    loops: Loops

    def tasks(self) -> Tasks:
        """Return what repeats the checks."""
        return {"host checks": self.looks.run}

    def checks(self) -> Mapping[str, Check]:
        """Return those without which no ADD works: they ask nobody when they are carried out."""
        return self.looks.ready() | loops_ready(self.loops)


def loops_ready(loops: Loops) -> dict[str, Check]:
    """Return the check that no loop fails without which pods cannot be added."""

    async def check() -> None:
        if faults := loops.faults(vital=True):
            raise NotReady("; ".join(faults), code=NOT_AVAILABLE)

    return {"loops": check}


async def _forward6(world: WorldBuilder) -> None:
    """Raise HostError if pods have no way out of this host by IPv6, which some network has."""
    port = world.endpoints.host_port
    routing = world.forwarding.fwd_mode is FwdMode.ROUTING
    # `netplugin.bridges.host.host_access` says that a host has no IPv6
    if port is None or not (routing and port.has_ipv6 and FORWARDING6.exists()):
        return
    off = "" if forwards(FORWARDING6) else FORWARDING6_OFF
    unheard = unheard_advertisements(router_advertisements.needing())
    if faults := "; ".join(filter(None, (off, unheard))):
        raise HostError(faults)


def strict_ways(world: WorldBuilder, links: Iterable[str]) -> list[str]:
    """Return those of the host's links that drop what its own pods send it by a router.

    The host answers its pods of vlan networks by a link of its own. Raises HostError.
    """
    by_router = any(one.encap is Encap.VLAN and one.gateway for one in world.networks.all())
    here = any(one.version == 4 for one in world.endpoints.routed(Bridge.VLAN))
    return reverse_paths.strict(links) if by_router and here else []


def build_host_checks(
    context: Context, clients: Clients, dataplane: Dataplane, leader: LeaderClient
) -> HostHealth:
    """Return the checks of this host, not running."""
    settings = context.settings

    async def data_directory() -> None:
        try:
            await clients.journal.probe()
        except HostError as exc:
            raise HostError(
                f"no pod can be added: {exc}: make room there, mount it writable, or name another "
                f"with --data-dir"
            ) from exc

    async def store() -> None:
        await clients.store.get(keys.LEADER_LOCK)
        await clients.store.check_room()

    async def vswitchd() -> None:
        try:
            await clients.vswitchd.call("version")
        except SwitchUnavailable as exc:
            raise SwitchUnavailable(f"{exc}: {RESTART}") from exc

    door = settings.cni_socket if settings.docker is None else settings.docker.plugin_socket

    async def served() -> None:
        # The file may be gone, or another's, while this agent listens on.
        if not (door.is_socket() and is_served(door)):
            raise HostError(
                f"no pod or container can be added: nobody listens at {door} any more, somebody "
                f"removed it: restart netplugin"
            )

    async def forwarding() -> None:
        # networks of mode bridge have their gateways outside of this host
        if dataplane.world.forwarding.fwd_mode is FwdMode.ROUTING and not forwards():
            raise HostError(FORWARDING_OFF)

    async def reverse() -> None:
        await clients.host_ports.keep_loose()
        holders = {await clients.links.holder(one) for one in settings.vtep_ips}
        for link in strict_ways(dataplane.world, sorted(holders | {*outside_links(4)})):
            raise HostError(
                f"link {link} drops what this host's own pods of vlan networks send it by their "
                f"router, since the host answers them by {port_names.VLAN_HOST_PORT}: "
                f"sysctl net.ipv4.conf.{link}.rp_filter=2, also after a reboot"
            )

    looks = HostChecks(
        [
            HostCheck(
                name="data directory",
                probe=data_directory,
                silence=f"no pod can be added: the disk of {settings.journal} does not answer",
                interval=5.0,
                code=NOT_AVAILABLE,
            ),
            HostCheck(
                name="ovsdb-server",
                probe=clients.ovsdb.ping,
                silence="ovsdb-server does not answer: restart openvswitch-switch; pods keep "
                "their connections",
                patience=PATIENCE,
                code=LIMITED,
            ),
            HostCheck(
                name="ovs-vswitchd",
                probe=vswitchd,
                silence=f"ovs-vswitchd does not answer: {RESTART}",
                # with it hang all ways of this host's own packets, and much else that is asked
                interval=1.0,
                patience=PATIENCE,
                code=LIMITED,
            ),
            HostCheck(
                name="store writes",
                probe=store,
                silence="the store does not answer this host: is it up, and does a firewall let "
                "this host reach it?",
                reason=clients.store.trouble,
                interval=3.0,
                patience=PATIENCE,
                code=NOT_AVAILABLE,
                shared=True,
            ),
            HostCheck(
                name="netmaster answers",
                probe=leader.ask,
                silence="the leading netmaster does not answer this host: does a firewall let it "
                "reach its port?",
                interval=3.0,
                patience=PATIENCE,
                code=NOT_AVAILABLE,
                shared=True,
            ),
            HostCheck(
                name="plugin socket",
                probe=served,
                silence=f"{door} cannot be looked at",
                # an agent that starts opens it after these checks
                patience=PATIENCE,
                code=NOT_AVAILABLE,
            ),
            *(
                HostCheck(
                    name="tunnel address" if one is settings.vtep_ip else "tunnel address of IPv6",
                    probe=AddressConflict(one).look,
                    silence="the links of this host cannot be read",
                    interval=3.0,
                )
                for one in settings.vtep_ips
            ),
            HostCheck(
                name="forwarding",
                probe=forwarding,
                silence="the kernel does not say whether it forwards",
            ),
            HostCheck(
                name="forwarding of IPv6",
                probe=partial(_forward6, dataplane.world),
                silence="the kernel does not say whether it forwards IPv6",
            ),
            HostCheck(
                name="reverse paths",
                probe=reverse,
                silence="the kernel does not say which ways back its links ask for",
            ),
        ],
        dataplane.progress,
        peers=dataplane.world.peers,
    )
    return HostHealth(looks=looks, loops=context.loops)
