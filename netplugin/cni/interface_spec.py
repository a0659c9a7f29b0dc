"""What is asked for one interface of a pod, by a runtime, docker or Mesos.

A call has it (`netplugin.cni.request`) and the journal keeps it
(`netplugin.pods.registry.journal_entry`): a repeated ADD asks for the interface that is there if
both are equal. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from core.ids import (
    EndpointKey,
    GroupName,
    NetworkId,
    NetworkName,
    TenantName,
    endpoint_key,
    network_id,
)
from netplugin.cni.net_config import NO_LIMIT, BandwidthLimit
from netplugin.cni.port_mappings import PortMapping

FIRST_INTERFACE: Final = "eth0"
"""The interface that runtimes create first in each pod."""

_NO_GROUP: Final = GroupName("")
_OF_INTERFACE: Final = "@"
"""Between container id and interface name; no container id has it."""


class Delivery(StrEnum):
    """Who finishes the pod's end of a link."""

    INSIDE = "inside"
    """The agent: it is made, named and addressed in the pod's namespace."""

    HANDED_OVER = "handed-over"
    """The engine (docker): it is made in the host's namespace, and the engine does the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceSpec:
    """An interface as it was asked for; two are equal if one endpoint serves both.

    `netns` is "" where a DEL names no namespace, and where an engine chooses one later. `endpoint`
    is the id by which netmaster knows the endpoint on its network. `limit` is on what the pod sends
    by the interface, `receive_limit` on what it receives; `mappings` are its host ports.
    `delivery` is a `Delivery`, or a word of a newer agent's.

    What is not compared changes nothing of an interface that is there: `labels` are those of its
    creation, `keep` is whom its addresses are kept for, `awaits_machine` is true for a pod that a
    machine may migrate to, `network_name` (of the network configuration) and `attachment_id`
    (CNI_CONTAINERID) are what a GC names it by. `mac` is ""
    where any will do; netmaster's answer is compared with it instead (`netplugin.pods.add`).
    """

    container_id: str
    endpoint: str
    netns: str
    ifname: str
    tenant: TenantName
    network: NetworkName
    group: GroupName = _NO_GROUP
    default_route: bool = True
    limit: BandwidthLimit = NO_LIMIT
    receive_limit: BandwidthLimit = NO_LIMIT
    mappings: tuple[PortMapping, ...] = ()
    delivery: str = Delivery.INSIDE
    mac: str = field(default="", compare=False)
    keep: str = field(default="", compare=False)
    awaits_machine: bool = field(default=False, compare=False)
    network_name: str = field(default="", compare=False)
    attachment_id: str = field(default="", compare=False)
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> EndpointKey:
        """Netmaster's key of the endpoint."""
        return endpoint_key(self.network_id, self.endpoint)

    @property
    def network_id(self) -> NetworkId:
        """The id of Contiv's network."""
        return network_id(self.network, self.tenant)

    @property
    def is_first(self) -> bool:
        """True for the interface that every pod has."""
        return self.ifname == FIRST_INTERFACE

    @property
    def handed_over(self) -> bool:
        """True if an engine names and addresses the pod's end of the link."""
        return self.delivery == Delivery.HANDED_OVER


def endpoint_id(container_id: str, ifname: str) -> str:
    """Return the id of an interface's endpoint: the container's for the first interface."""
    if ifname == FIRST_INTERFACE:
        return container_id
    return f"{container_id}{_OF_INTERFACE}{ifname}"


def container_of(endpoint: str) -> str:
    """Return the id of the container that has an endpoint."""
    return endpoint.partition(_OF_INTERFACE)[0]
