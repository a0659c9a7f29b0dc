"""What tests of service table share."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.system.joined import address6
from tests.system.service_ways import (
    ALL,
    KINDS,
    PODS,
    Asked,
    Row,
    rows,
)


@dataclass(frozen=True, kw_only=True)
class Closed:
    """Rows that cannot pass, and why; `kinds` of targets, and what stays `silent`."""

    why: str
    plane: tuple[str, str]
    clients: Sequence[str]
    ways: Sequence[str]
    kinds: Sequence[str] = KINDS
    silent: str = ALL

    def covers(self, row: Row) -> bool:
        """Tell whether a row is one of these."""
        return row.client in self.clients and row.way in self.ways


OF_HOSTS = ("NodePort", "NodePort of the other host", "hostPort")
"""The ways that begin at an address of a host."""


OF_SERVICE = ("ClusterIP", "externalIP")
"""The ways that the switch translates for pods."""


_NO_WAY_OUT = "pods of a bridged vxlan have no way out of their network, not to a host either"


_BGP = "on routed vlans pods reach by BGP alone what is no pod, and here is no BGP router"


LOOPBACK = "the host's ports for pods alone route loopback addresses: neighbours must not get in"


PLANES = [(mode, encap) for mode in ("routing", "bridge") for encap in ("vxlan", "vlan")]


CLOSED = (
    Closed(why=_NO_WAY_OUT, plane=("bridge", "vxlan"), clients=PODS, ways=OF_HOSTS),
    Closed(
        why=_NO_WAY_OUT,
        plane=("bridge", "vxlan"),
        clients=PODS,
        ways=OF_SERVICE,
        kinds=("host", "outside"),
    ),
    Closed(
        why=_BGP,
        plane=("routing", "vlan"),
        clients=PODS,
        ways=OF_HOSTS,
    ),
    Closed(
        why=_BGP,
        plane=("routing", "vlan"),
        clients=PODS,
        ways=OF_SERVICE,
        kinds=("host", "outside"),
    ),
    Closed(
        why="a host reaches other hosts' pods on routed vlans by BGP alone: here is no BGP router",
        plane=("routing", "vlan"),
        clients=("other host",),
        ways=("ClusterIP", "NodePort", "loopback", "externalIP"),
        kinds=("pod",),
    ),
    Closed(
        why="as above",
        plane=("routing", "vlan"),
        clients=("host", "outside"),
        ways=("NodePort of the other host",),
        kinds=("pod",),
    ),
    *(
        Closed(why=LOOPBACK, plane=plane, clients=clients, ways=("loopback",), kinds=(kind,))
        for plane in PLANES
        for clients, kind in ((("host", "other host"), "outside"), (("other host",), "host"))
    ),
    Closed(
        why=LOOPBACK,
        plane=("bridge", "vlan"),
        clients=("other host",),
        ways=("loopback",),
        kinds=("pod",),
    ),
)


def host_addresses(bed: Bed, version: int) -> list[str]:
    """Return the addresses of both hosts in their network."""
    return [host.address if version == 4 else address6(host) for host in bed.hosts]


def rows_of(bed: Bed, pods: Sequence[Pod], kind: str, version: int = 4) -> Asked:
    """Return who asks where."""
    one, two = bed.hosts
    clients = {pod.name: pod.namespace for pod in pods}
    clients |= {"host": one.namespace, "other host": two.namespace}
    clients["outside"] = bed.fabric.namespace
    first, second = host_addresses(bed, version)
    return rows(clients, first, second, kind)


def closed_rows(
    bed: Bed, pods: Sequence[Pod], kind: str, asked: Asked, known: Sequence[Closed] = CLOSED
) -> dict[Row, str]:
    """Return what stays silent in which rows."""
    plane = bed.fwd_mode, str(pods[0].conf["contiv"]["network"])
    return {
        row: one.silent
        for row in asked
        for one in known
        if one.plane == plane and kind in one.kinds and one.covers(row)
    }
