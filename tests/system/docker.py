"""What tests of docker share."""

import json

from tests.bed.cluster import Bed

VXLAN = "contivVxlanBridge"


def leftovers(bed: Bed) -> list[str]:
    """List what containers have left: links, ports, endpoints in journal and store."""
    found = []
    for host in bed.hosts:
        links = json.loads(host.namespace.run(["ip", "-json", "link"]).stdout)
        found += [one["ifname"] for one in links if "vport" in one["ifname"]]
        found += [port for port in host.ovs.vsctl("list-ports", VXLAN).split() if "vport" in port]
        found += [path.name for path in (host.dir / "data" / "endpoints").glob("*")]
    found += bed.store.entries("/contiv.io/state/eps/")
    return found


def endpoints(bed: Bed) -> list[str]:
    return list(bed.store.entries("/contiv.io/state/eps/"))
