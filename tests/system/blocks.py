"""Which addresses hosts hold ahead of their pods, and which their endpoints have, by the store."""

import json

from core import keys
from core.ids import NetworkName, TenantName, endpoint_key, network_id
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod

NET = network_id(NetworkName("default-net"), TenantName("default"))


def held_ahead(bed: Bed, host: Host) -> set[str]:
    """Return the addresses that a host holds ahead of its pods."""
    found = set()
    for key, value in bed.store.entries(keys.GRANTS).items():
        grant = json.loads(value)
        if grant["owner"] == "block" and grant["ownerID"].startswith(f"{host.label}/"):
            found.add(keys.parse_grant(key)[1])
    return found


def stored_address(bed: Bed, pod: Pod) -> str:
    """Return the address that the store knows of a pod, "" if it does not know the pod."""
    key = keys.endpoint(endpoint_key(NET, pod.sandbox.container_id))
    value = bed.store.entries(key).get(key)
    return "" if value is None else str(json.loads(value)["ipAddress"])
