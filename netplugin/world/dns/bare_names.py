"""Which names the objects of a cluster may have in DNS at all. Pure: no I/O.

In comes a name that a pod asks for; out goes whether an object of Contiv, or a short name of
Kubernetes, may answer for it. `netplugin.world.dns.dns_records` and
`netplugin.world.dns.kube_names` ask here, whoever wrote the name. Who may create a pod must not be
able to answer for a name that means something to others: a domain, the loopback, the name that
clients look for by themselves.
"""

from typing import Final

RESERVED: Final = frozenset(
    {
        "alt",  # RFC 9476
        "arpa",  # addresses, RFC 3172
        "invalid",  # RFC 6761
        "isatap",  # hosts look for a router by it, RFC 5214
        "local",  # multicast DNS, RFC 6762
        "localhost",  # the loopback, RFC 6761
        "onion",  # RFC 7686
        "wpad",  # browsers look for a proxy by it
    }
)
"""Names that belong to nobody in a cluster, and all names below them; the cluster's zone may."""


ALIASES: Final = "io.contiv.docker.aliases"
"""Label of an endpoint: more names of a container, with spaces between them, on its network."""


def is_free(name: str, zone: str) -> bool:
    """Return whether a name in lower case may be a short name in a cluster with this zone."""
    if not name or name.rpartition(".")[2] in RESERVED:
        return False
    return not f".{name}".endswith(f".{zone}") and not f".{zone}".endswith(f".{name}")


def is_bare(name: str, zone: str) -> bool:
    """Return whether a name may be that of an object of Contiv: it is free, and one label."""
    # A name with a dot is one of the outside. So is an escaped dot, which is written with one.
    return "." not in name and is_free(name, zone)
