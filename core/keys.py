"""Every key in the store: built and parsed here only.

The paths under `obj`, `state`, `oper`, `lock`, `service` and
`master` are the original's (docs/original/netmaster-state.md §1, docs/original/objdb-state.md
§2-4), with one slash where the original wrote two. Prefixes end with "/". Consul's missing leading
slash is added and removed by the consul backend.
"""

from typing import Final

from core.ids import DocknetId, EndpointKey, GroupKey, HostLabel, NetworkId, ServiceKey

ROOT: Final = "/contiv.io/"

OBJECTS: Final = ROOT + "obj/modeldb/"
RULES: Final = OBJECTS + "rule/"
GROUP_OBJECTS: Final = OBJECTS + "endpointGroup/"
PROFILE_OBJECTS: Final = OBJECTS + "appProfile/"
NETWORKS: Final = ROOT + "state/nets/"
ENDPOINTS: Final = ROOT + "state/eps/"
GROUPS: Final = ROOT + "state/endpointGroups/"
SERVICE_LBS: Final = ROOT + "state/serviceLB/"
BGPS: Final = ROOT + "state/bgp/"
MASTER_CONFIG: Final = ROOT + "master/config/"
GLOBAL_CONFIG: Final = MASTER_CONFIG + "global"
LINEAGE: Final = MASTER_CONFIG + "lineage"
"""The terms of the store's leaders; beside the settings, so that agents need no further watch."""
TAG_RANGES: Final = ROOT + "state/global/global"
GLOBAL_OPER: Final = ROOT + "oper/global/global"
VLAN_RESOURCE: Final = ROOT + "state/auto-vlan/global"
VLAN_RESOURCE_OPER: Final = ROOT + "oper/auto-vlan/global"
VXLAN_RESOURCE: Final = ROOT + "state/auto-vxlan/global"
VXLAN_RESOURCE_OPER: Final = ROOT + "oper/auto-vxlan/global"
CLEANUPS: Final = ROOT + "state/cleanup/"
"""Endpoint clean-ups in progress."""
ABSENCES: Final = ROOT + "state/absent/"
"""Hosts without a registered agent, with the time since when."""
DRAINS: Final = ROOT + "state/drained/"
"""Drained hosts: they get no new endpoints."""
ADDRESS_BLOCKS: Final = ROOT + "state/address-blocks/"
"""Hosts that hold addresses ahead of their pods, with the lease of each (ADR 29)."""
ACI_LAUNCHES: Final = ROOT + "state/aci-launch/"
"""Application profiles whose state in the ACI gateway may differ from the store."""
DOCKNETS: Final = ROOT + "oper/docknet/"
"""Docker network -> network or group."""
DOCKNET_DOUBTS: Final = ROOT + "state/docknet-doubt/"
"""Networks and groups whose state in docker may differ from the store."""
SCHEMA: Final = ROOT + "master/schema"
"""The schema version of the store; absent in a store that the original wrote."""
GROUP_ID_CURSOR: Final = ROOT + "state/group-id-cursor"
"""The last group id allocated: ids are reused as late as possible (ADR 10)."""

GRANTS: Final = ROOT + "ipam/"
ANSWERS: Final = ROOT + "answers/"
"""Answers that are kept for idempotency keys; releases without them never read this prefix."""
CHANGES: Final = ROOT + "changes/"
"""The last changes of objects, a ring; releases without them never read this prefix."""
HOSTS: Final = ROOT + "host/"
SERVICES: Final = ROOT + "service/"
COMMITS: Final = ROOT + "commit/"
COMPACTION: Final = ROOT + "compaction"
"""To which revision etcd's history is compacted next, and when that one was current."""
AUTH: Final = ROOT + "auth/"
"""Accounts: for masters only, so an agent's user of the store has no right to read it."""
USERS: Final = AUTH + "users/"
TOKEN_KEYS: Final = AUTH + "token-keys"
LOCKS: Final = ROOT + "lock/"
LEADER_LOCK: Final = LOCKS + "netmaster/leader"

LEADER_PREFIXES: Final = (
    OBJECTS,
    ROOT + "state/",
    ROOT + "master/",
    ROOT + "oper/global/",
    ROOT + "oper/auto-vlan/",
    ROOT + "oper/auto-vxlan/",
    DOCKNETS,
    GRANTS,
    ANSWERS,
    CHANGES,
)
"""The prefixes that the leader writes; another writer here makes it rebuild its view (ADR 9)."""

SERVICE_NETMASTER: Final = "netmaster"
SERVICE_NETMASTER_RPC: Final = "netmaster.rpc"
SERVICE_NETPLUGIN: Final = "netplugin"
SERVICE_VTEP: Final = "netplugin.vtep"
SERVICE_AGENT_REST: Final = "netplugin.rest"
"""An agent's REST server: inspection and endpoint removal; the original assumes port 9090."""


def obj(kind: str, key: str) -> str:
    """Return the key of a REST object by its type and its object key."""
    return f"{OBJECTS}{kind}/{key}"


def parse_obj(key: str) -> tuple[str, str]:
    """Return (kind, object key) of a key under OBJECTS. Raises ValueError for any other key."""
    kind, slash, rest = _after(OBJECTS, key).partition("/")
    if not slash or not kind or not rest:
        raise ValueError(f"{key!r} is not the key of a REST object")
    return kind, rest


def network(nid: NetworkId) -> str:
    """Return the key of a network record."""
    return NETWORKS + nid


def endpoint(epid: EndpointKey) -> str:
    """Return the key of an endpoint record; container ids may hold any character, "/" included."""
    return ENDPOINTS + epid


def group(key: GroupKey) -> str:
    """Return the key of an endpoint group record."""
    return GROUPS + key


def service_lb(key: ServiceKey) -> str:
    """Return the key of a service record."""
    return SERVICE_LBS + key


def bgp(hostname: str) -> str:
    """Return the key of the BGP record of a host."""
    return BGPS + hostname


def cleanup(tenant: str, category: str, name: str) -> str:
    """Return the key of a clean-up; names may hold any character, "/" included."""
    return f"{CLEANUPS}{tenant}/{category}/{name}"


def absence(label: HostLabel) -> str:
    """Return the key of the time since when a host has no agent."""
    return ABSENCES + label


def drain(label: HostLabel) -> str:
    """Return the key that marks a host as drained."""
    return DRAINS + label


def address_blocks(label: HostLabel) -> str:
    """Return the key of the lease under which a host holds addresses."""
    return ADDRESS_BLOCKS + label


def aci_launch(profile: str) -> str:
    """Return the key of the pending ACI update of a profile, by the profile's object key."""
    return ACI_LAUNCHES + profile


def docknet(docknet_id: DocknetId) -> str:
    """Return the key of the record of a docker network."""
    return DOCKNETS + docknet_id


def docknet_doubt(docknet_id: DocknetId) -> str:
    """Return the key of the pending effect on a docker network."""
    return DOCKNET_DOUBTS + docknet_id


def grants(nid: NetworkId) -> str:
    """Return the prefix of all address grants of a network."""
    return f"{GRANTS}{nid}/"


def grant(nid: NetworkId, address: str) -> str:
    """Return the key of one address grant; `address` is canonical text, without a prefix length."""
    return f"{GRANTS}{nid}/{address}"


def parse_grant(key: str) -> tuple[NetworkId, str]:
    """Return (network id, address text) of a grant key. Raises ValueError for any other key."""
    nid, slash, address = _after(GRANTS, key).partition("/")
    if not slash or not nid or not address:
        raise ValueError(f"{key!r} is not the key of an address grant")
    return NetworkId(nid), address


def answer(digest: str) -> str:
    """Return the key of the answer that is kept for an idempotency key, by its digest."""
    return ANSWERS + digest


def change(slot: int) -> str:
    """Return the key of a place in the ring of changes."""
    return f"{CHANGES}{slot:04d}"


def host(label: HostLabel) -> str:
    """Return the key of a host record."""
    return HOSTS + label


def user(name: str) -> str:
    """Return the key of a user of the REST API."""
    return USERS + name


def services(name: str) -> str:
    """Return the prefix of all instances of a service."""
    return f"{SERVICES}{name}/"


def service(name: str, address: str, port: int) -> str:
    """Return the key of one instance of a service."""
    return f"{SERVICES}{name}/{address}:{port}"


def commit(writer: str) -> str:
    """Return a writer's marker key: it identifies the writer's last applied commit."""
    return COMMITS + writer


def after(prefix: str, key: str) -> str:
    """Return what follows `prefix` in `key`; ValueError if the key does not start with it."""
    return _after(prefix, key)


def _after(prefix: str, key: str) -> str:
    if not key.startswith(prefix):
        raise ValueError(f"{key!r} is not under {prefix!r}")
    return key[len(prefix) :]
