"""Decisions about live migrations of machines of KubeVirt, which have two pods at a time (pure).

The source pod has the endpoint and the addresses while the machine runs in it. The target pod gets
the same addresses in its namespace, and has no endpoint until its host says that the machine runs
there. Then one transaction gives it the grants and deletes the source pod's endpoint: an address
has one owner at all times (ADR 46).
"""

from dataclasses import dataclass

from contivmodel.rpc import CreateEndpointRequest
from core.ids import OF_MACHINE, NetworkId
from netmaster.plan.endpoints import kept
from netmaster.view import View
from state.records import EndpointRecord


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The endpoint that a target pod will have, and the one that the machine has now."""

    endpoint: EndpointRecord
    source: EndpointRecord


def source(view: View, nid: NetworkId, request: CreateEndpointRequest) -> EndpointRecord | None:
    """Return the endpoint of the pod that a machine migrates from, None without a migration.

    A pod that awaits its machine may have any pod of the machine as its source; a machine that
    runs in its target pod replaces the very source that netmaster named before.
    """
    if not request.keep.endswith(OF_MACHINE) or not (request.awaits_machine or request.replaces):
        return None
    found = kept.holder(view, nid, request.keep)
    if found is None or request.replaces not in {"", found.endpoint_id}:
        return None
    return found
