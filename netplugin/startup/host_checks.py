"""What is looked at every few seconds on this host, beside what its loops keep.

In come the agent's clients; out come the checks that `netplugin.diagnostics.host_checks` repeats.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from core import keys
from core.errors import HostError, SwitchUnavailable
from core.patience import patient
from core.retry import Loops
from core.unix_socket import is_served
from daemons.health import Check
from netplugin.bridges.host_access import (
    FORWARDING6,
    FORWARDING6_OFF,
    FORWARDING_OFF,
    forwards,
    unheard_advertisements,
)
from netplugin.cni.errors import LIMITED, NOT_AVAILABLE, NotReady
from netplugin.diagnostics.host_checks import HostCheck, HostChecks
from netplugin.kernel import router_advertisements
from netplugin.kernel.address_conflict import AddressConflict
from netplugin.settings import Settings
from netplugin.startup.clients import Clients
from netplugin.startup.dataplane import Dataplane
from netplugin.world.builder import WorldBuilder
from ofnet.world import FwdMode

RESTART: Final = "look at its log, restart openvswitch-switch"
PATIENCE: Final = patient(4.0)
"""Seconds for which a program must have been silent: one that is busy is not dead."""


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
    # `netplugin.bridges.host_access` says that a host has no IPv6
    if port is None or not (routing and port.has_ipv6 and FORWARDING6.exists()):
        return
    off = "" if forwards(FORWARDING6) else FORWARDING6_OFF
    unheard = unheard_advertisements(router_advertisements.needing())
    if faults := "; ".join(filter(None, (off, unheard))):
        raise HostError(faults)


def build_host_checks(
    settings: Settings,
    clients: Clients,
    dataplane: Dataplane,
    ask_master: Callable[[], Awaitable[None]],
) -> HostChecks:
    """Return the checks of this host, not running; `ask_master` returns if the leader answers."""

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

    return HostChecks(
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
                probe=ask_master,
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
            HostCheck(
                name="tunnel address",
                probe=AddressConflict(settings.vtep_ip).look,
                silence="the links of this host cannot be read",
                interval=3.0,
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
        ],
        dataplane.progress.set_faults,
        hosts=dataplane.world.peers.count,
    )
