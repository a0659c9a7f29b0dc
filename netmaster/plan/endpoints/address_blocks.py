"""Decisions about addresses that hosts hold ahead of their pods: renew, reclaim (ADR 29).

In come the view and a host's request; out comes a plan that renews the host's lease, releases what
the host does not count on any more and grants what it wants. `netmaster.plan.endpoints.endpoint`
makes endpoints of these addresses; `netmaster.plan.endpoints.cleanup` ends the leases of dead
hosts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from contivmodel.rpc import AddressBlocksRequest
from core import keys
from core.addresses import ipv4_text, ipv6_text
from core.errors import Conflict, Invalid
from core.ids import HostLabel, NetworkId
from netmaster.plan import quotas
from netmaster.plan.grants import AddressSource, address_source, grant_write
from netmaster.plan.model import Plan
from netmaster.stored import BlockLease, Write
from netmaster.view import View
from state.records import Encap, GrantOwner, GrantRecord, NetworkRecord, NetworkType

CHUNK: Final = 20
"""How many addresses one plan releases, and how many it grants."""
LONGEST_WITHOUT_REMOVAL: Final = 86400.0
"""Seconds of a lease where hosts are never declared dead."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a renewal needs besides the request: `new_lease` is a random id."""

    new_lease: str
    seconds: float
    now: float


@dataclass(frozen=True, slots=True)
class HeldAhead:
    """Addresses of one network for one pod; "" of a family that the network has not."""

    network: NetworkId
    ipv4: str
    ipv6: str


@dataclass(frozen=True, slots=True)
class BlocksReply:
    """The lease that is stored now, and what was granted under it with `token`.

    `renewed` says whether the request was carried out; if it was not, nothing was changed.
    """

    lease: str
    number: int
    renewed: bool
    seconds: float = 0.0
    token: str = ""
    granted: tuple[HeldAhead, ...] = ()
    drained: bool = False


def renew(view: View, request: AddressBlocksRequest, how: Renewal) -> Plan:
    """Renew a host's lease, or begin one; the reply is a `BlocksReply`.

    One plan releases and grants some addresses: a host that wants more asks again.
    """
    if not request.host:
        raise Invalid("the request for address blocks names no host")
    if view.is_aci:
        raise Conflict("there are no address blocks on an ACI fabric")
    label = HostLabel(request.host)
    known = view.block_leases.get(label)
    stored = (known.lease, known.number) if known else ("", 0)
    if stored != (request.lease, request.number):
        # A copy of an earlier request that was late, or the host does not know its last answer, or
        # its lease has ended. To carry it out would release what the host counts on by now.
        return Plan((), reply=BlocksReply(*stored, renewed=False))
    lease = BlockLease(
        label,
        lease=known.lease if known else how.new_lease,
        number=stored[1] + 1,
        seconds=how.seconds,
    )
    drained = label in view.drains
    granted = () if drained else tuple(_granted(view, request))
    writes = (
        Write(keys.address_blocks(label), lease, new=known is None),
        *_unheld(view, lease, request),
        *_grants(view, lease, granted, how.now),
    )
    reply = BlocksReply(
        lease=lease.lease,
        number=lease.number,
        renewed=True,
        seconds=lease.seconds,
        token=lease.token,
        granted=granted,
        drained=drained,
    )
    return Plan(writes, reply=reply)


def reclaim(view: View) -> Plan:
    """Release addresses of leases that have ended, or of deleted networks; the reply is how many.

    One plan releases some of them: repeat until the reply is 0.
    """
    due = (
        key
        for label, grants in view.blocks.items()
        for key, grant in grants.items()
        if _is_over(view, label, key, grant)
    )
    writes = tuple(Write(key, None, new=False) for key in islice(due, CHUNK))
    return Plan(writes, reply=len(writes))


def lease_seconds(dead_host_after: float) -> float:
    """Return how long a lease is, from the time after which absent hosts are declared dead."""
    return dead_host_after or LONGEST_WITHOUT_REMOVAL


def _is_over(view: View, label: HostLabel, key: str, grant: GrantRecord) -> bool:
    lease = view.block_leases.get(label)
    return (
        lease is None
        or not lease.has(grant.owner_id)
        or keys.parse_grant(key)[0] not in view.networks
    )


def _unheld(view: View, lease: BlockLease, request: AddressBlocksRequest) -> Iterator[Write]:
    """Yield the releases of some addresses of the lease that its host does not count on."""
    held = {keys.GRANTS + one for one in request.held}
    unheld = (
        key
        for key, grant in view.blocks.get(lease.label, {}).items()
        if key not in held and lease.has(grant.owner_id)
    )
    for key in islice(unheld, CHUNK):
        yield Write(key, None, new=False)


def _granted(view: View, request: AddressBlocksRequest) -> Iterator[HeldAhead]:
    room = CHUNK
    for nid, wanted in request.wanted.items():
        if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 10):
            raise Invalid(f"{wanted!r} is not a number of addresses")
        network = view.networks.get(NetworkId(nid))
        if network is None or not _has_blocks(view, network):
            continue
        families = sum(1 for _ in network.subnets)
        source = address_source(view, network, None)
        number = min(int(wanted), room // families, _share(view, request.host, source))
        pairs = list(_pairs(source, number))
        room -= families * len(pairs)
        for pair in pairs:
            yield HeldAhead(network.id, *pair)


def _pairs(source: AddressSource, number: int) -> Iterator[tuple[str, str]]:
    """Yield up to so many free addresses, each with one of the other family if there is one."""
    network = source.network
    if not network.ipv6_subnet:
        yield from ((ipv4_text(one), "") for one in source.v4.ahead(number, source.barred4))
        return
    ipv6 = map(ipv6_text, source.v6.ahead(number, source.barred6))
    if not network.subnet:
        yield from (("", one) for one in ipv6)
        return
    yield from zip(map(ipv4_text, source.v4.ahead(number, source.barred4)), ipv6, strict=False)


def _share(view: View, host: str, source: AddressSource) -> int:
    """Return how many addresses a host may hold more: never more than it leaves free to others."""
    network = source.network
    own = (keys.parse_grant(key) for key in view.blocks.get(HostLabel(host), ()))
    six = not network.subnet
    held = sum(nid == network.id and (":" in address) is six for nid, address in own)
    free = source.v6.free if six else source.v4.free_of(None)
    return max(0, (free - held) // 2)


def _grants(
    view: View, lease: BlockLease, granted: tuple[HeldAhead, ...], now: float
) -> Iterator[Write]:
    seqs = count(view.next_seq)
    for one in granted:
        source = address_source(view, view.networks[one.network], None)
        for address in filter(None, (one.ipv4, one.ipv6)):
            grant = GrantRecord(
                owner=GrantOwner.BLOCK, owner_id=lease.token, seq=next(seqs), granted_at=now
            )
            yield grant_write(source, address, grant)


def _has_blocks(view: View, network: NetworkRecord) -> bool:
    # A pod that starts without the leader starts whatever a quota says.
    return (
        network.encap is Encap.VXLAN
        and network.type is not NetworkType.INFRA
        and not quotas.limits_endpoints(view, network.tenant)
    )
