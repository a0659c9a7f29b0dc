"""Builds what watches the tunnels to other hosts: next hops, what gets through, and how large.

In come the data plane and the MTUs of pods; out come loops that send nothing before they run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from core.metrics import Reading, labelled, single
from netplugin.bridges.bridges import USERSPACE
from netplugin.bridges.vxlan.path_mtu import PathMtu, ProbeTiming
from netplugin.bridges.vxlan.tunnel_neighbours import TunnelNeighbours
from netplugin.bridges.vxlan.tunnel_probes import TunnelProbes
from netplugin.kernel.packets import icmp, neighbour_frames
from netplugin.masters.progress import Progress
from netplugin.pods.mtu import PodMtus
from netplugin.startup import metric_names as names
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context, Subsystem, Task, Tasks
from netplugin.startup.dataplane import Dataplane
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelHealth(Subsystem):
    """What watches the tunnels of one host."""

    neighbours: TunnelNeighbours
    path_mtu: PathMtu
    probes: TunnelProbes
    progress: Progress
    resolves: bool
    """Whether the datapath needs the next hops of tunnels resolved for it."""
    probing: bool

    def tasks(self) -> Tasks:
        """Return what this host's datapath needs, and what its settings ask for."""
        tasks: dict[str, Task] = {}
        if self.resolves:
            tasks["neighbours"] = self.neighbours.run
        if self.probing:
            tasks["path MTU"] = self.path_mtu.run
            tasks["tunnel probes"] = self.probes.run
        return tasks

    async def readings(self) -> Iterable[Reading]:
        """Return what the probes found."""
        records = self.probes.records.items()
        seconds = {str(host): one.seconds for host, one in records}
        known = {host: one for host, one in seconds.items() if one is not None}
        return [
            single(names.PATHS, self.progress.fault_counts().get("paths", 0)),
            labelled(names.TUNNEL_LOSS, {str(host): one.loss for host, one in records}),
            labelled(names.TUNNEL_SECONDS, known),
        ]


def build_tunnel_health(
    context: Context, clients: Clients, dataplane: Dataplane, mtus: PodMtus
) -> TunnelHealth:
    """Return what watches the tunnels, not running."""
    settings, progress = context.settings, dataplane.progress
    peers, probe = dataplane.world.peers, partial(icmp.passes, sources=settings.vtep_ips)
    neighbours = TunnelNeighbours(
        peers=peers,
        own=settings.vtep_ips,
        control=clients.vswitchd,
        frames=neighbour_frames,
        board=progress,
    )
    return TunnelHealth(
        neighbours=neighbours,
        path_mtu=PathMtu(
            peers=peers,
            sizes=mtus,
            probe=probe,
            timing=ProbeTiming(interval=settings.probe_interval),
            board=progress,
            next_hops=neighbours,
        ),
        probes=TunnelProbes(
            own=settings.host,
            agent=dataplane.agents[Bridge.VXLAN],
            peers=peers,
            sizes=mtus,
            port=settings.vxlan_port,
            echo=probe,
            board=progress,
        ),
        progress=progress,
        resolves=dataplane.bridges.datapath == USERSPACE,
        probing=bool(settings.probe_interval),
    )
