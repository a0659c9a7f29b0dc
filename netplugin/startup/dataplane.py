"""What forwards: the records, the World of them, the bridges, and who keeps them in step.

In come the doors (`netplugin.startup.clients`) and what has been found out before; out comes a
plane that is wired, but knows nothing yet and changes no flow. Next is `netplugin.startup.resync`.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bridges.bridges import choose_datapath, datapath_id, ensure_bridges
from netplugin.bridges.nics import check_cards
from netplugin.bridges.port_reconciler import PortReconciler
from netplugin.bridges.reconciler import Reconciler
from netplugin.bridges.record_events import RecordEvents
from netplugin.bridges.tunnels import Tunnels
from netplugin.bridges.uplinks import Uplinks, attached_cards
from netplugin.dns.nameserver import NameServer
from netplugin.masters.progress import Progress
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.world.builder import WorldBuilder
from netplugin.world.vrfs import stored_vrfs
from ofnet.agent import BridgeAgent
from ofnet.channel.switch import Switch
from ofnet.world import Bridge, FwdMode
from state.watch import RecordFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataplane:
    """The parts that turn records into flows."""

    feed: RecordFeed
    progress: Progress
    world: WorldBuilder
    names: NameServer
    agents: dict[Bridge, BridgeAgent]
    records: RecordEvents
    reconciler: Reconciler
    ports: PortReconciler
    datapath: str


async def uplink_macs(doors: Clients, names: tuple[str, ...]) -> dict[str, str]:
    """Return the MAC address of each card of the uplink.

    Raises UsageError for one that this host lives on.
    """
    cards = await doors.links.cards(names)
    check_cards(cards, attached_cards(doors.ovsdb.ports(Bridge.VLAN).values()))
    return {card.name: card.mac for card in cards}


async def open_plane(
    life: Context, doors: Clients, fwd_mode: FwdMode, macs: dict[str, str]
) -> Dataplane:
    """Have the bridges made, and wire what forwards on them."""
    settings = life.settings
    switches = await _open_switches(life)
    datapath = await choose_datapath(doors.links)
    controllers = {b: switch.port for b, switch in switches.items()}
    make_bridges = partial(ensure_bridges, doors.ovsdb, settings.host, datapath, controllers)
    await doors.ovsdb.hang_up(*Bridge)
    await make_bridges()
    kept = stored_vrfs(doors.ovsdb.bridge_external_ids(Bridge.VXLAN))
    world = WorldBuilder(settings.host, fwd_mode, kept, guard=settings.source_guard)
    names = NameServer(world.names)
    agents = _agents(switches, world, names, settings.audit_interval)
    feed = RecordFeed(doors.store)
    progress = Progress(agents, feed.unreadable)
    tunnels = Tunnels(
        ovsdb=doors.ovsdb,
        world=world,
        vxlan_port=settings.vxlan_port,
        report_faults=partial(progress.show, "tunnels"),
    )
    records = RecordEvents(world, progress)
    reconciler = Reconciler(
        ovsdb=doors.ovsdb, world=world, agents=agents, records=records, progress=progress
    )

    async def restore_bridges() -> None:
        await make_bridges()
        reconciler.on_bridges_recreated()

    ports = PortReconciler(
        ovsdb=doors.ovsdb,
        records=records,
        restore_bridges=restore_bridges,
        uplinks=Uplinks(macs, doors.ovsdb, world),
        tunnels=tunnels,
        progress=progress,
    )
    return Dataplane(
        feed=feed,
        progress=progress,
        world=world,
        names=names,
        agents=agents,
        records=records,
        reconciler=reconciler,
        ports=ports,
        datapath=datapath,
    )


async def _open_switches(life: Context) -> dict[Bridge, Switch]:
    wanted = {
        Bridge.VXLAN: life.settings.vxlan_openflow_port,
        Bridge.VLAN: life.settings.vlan_openflow_port,
    }
    switches = {}
    for bridge, port in wanted.items():
        switch = Switch(bridge, port=port, datapath_id=datapath_id(bridge, life.settings.host))
        await switch.start()
        life.stack.push_async_callback(switch.close)
        switches[bridge] = switch
    return switches


def _agents(
    switches: dict[Bridge, Switch], world: WorldBuilder, names: NameServer, audit_interval: float
) -> dict[Bridge, BridgeAgent]:
    return {
        bridge: BridgeAgent(
            switch,
            bridge,
            world.take(bridge)[0],
            audit_interval=audit_interval,
            resolve=names.resolve,
        )
        for bridge, switch in switches.items()
    }
