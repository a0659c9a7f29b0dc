"""The addresses that are kept for pods and machines, for `GET /api/v2/kept-addresses`. Pure."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from core import ids, keys
from core.ids import EndpointKey, HostLabel, NetworkId
from netmaster.view import View
from state.records import GrantOwner


class KeptAddress(TypedDict):
    """What is kept for a pod or machine on a network."""

    key: Annotated[str, Field(description="`<tenant>:<network>:<namespace>:<name>`")]
    tenantName: str
    networkName: str
    name: Annotated[
        str, Field(description="`<namespace>/<pod>`, or `<namespace>/<machine>@vm` of KubeVirt")
    ]
    ipAddress: str
    ipv6Address: str
    macAddress: Annotated[str, Field(description="empty for the one derived from the address")]
    host: Annotated[str, Field(description="where the endpoint is that has them; empty if away")]
    awaySeconds: Annotated[
        float, Field(description="for how long it has been away, as far as that is stored")
    ]


Held = tuple[NetworkId, str]
"""The network, and whom the addresses are kept for."""


def keys_of(view: View) -> dict[str, Held]:
    """Return key -> network and name of all that is kept."""
    found: dict[str, Held] = {}
    for nid, name in view.kept:
        network = view.networks.get(nid)
        if network is not None:
            namespace, _, called = name.partition("/")
            place = ids.object_key(network.tenant, network.name)
            found[f"{place}:{namespace}:{called}"] = nid, name
    return found


def shown(view: View, held: Held) -> KeptAddress:
    """Return what is kept for a name."""
    nid, name = held
    network = view.networks[nid]
    grants = {keys.parse_grant(key)[1]: grant for key, grant in view.kept[held].items()}
    host = HostLabel("")
    for grant in grants.values():
        endpoint = view.endpoints.get(EndpointKey(grant.owner_id))
        if grant.owner is GrantOwner.ENDPOINT and endpoint is not None:
            host = endpoint.homing_host
    namespace, _, called = name.partition("/")
    return {
        "key": f"{ids.object_key(network.tenant, network.name)}:{namespace}:{called}",
        "tenantName": network.tenant,
        "networkName": network.name,
        "name": name,
        "ipAddress": next((one for one in grants if ":" not in one), ""),
        "ipv6Address": next((one for one in grants if ":" in one), ""),
        "macAddress": next((one.mac for one in grants.values() if one.mac), ""),
        "host": host,
        "awaySeconds": max((one.away for one in grants.values()), default=0.0),
    }
