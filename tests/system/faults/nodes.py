"""A node: a namespace on the fabric, for a master and a member of the store, which can be cut off.

In come a number and a name; out comes a namespace whose `eth0` has an address among the hosts'.
"""

from tests.bed.hosts import PREFIX_LENGTH, UNDERLAY, Fabric
from tests.bed.netns import Namespace


class Node:
    """One node."""

    def __init__(self, number: int, name: str) -> None:
        self.label = f"n{number}"
        self.address = f"{UNDERLAY}.{number}"
        self.link = f"u{self.label}"
        self.namespace = Namespace(name)

    def start(self, fabric: Fabric) -> "Node":
        """Make the node and join it to the fabric."""
        self.namespace.create()
        fabric.join(self.namespace, self.link)
        address = f"{self.address}/{PREFIX_LENGTH}"
        self.namespace.run(["ip", "address", "add", address, "dev", "eth0"])
        return self

    def stop(self) -> None:
        """Remove the node."""
        self.namespace.delete()
