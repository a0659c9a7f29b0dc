"""The name server for pods: answers queries for names of the pod's tenant.

In come the messages that `ofnet.names` extracts from frames, and the names of each tenant
(`netplugin.world.dns_records`); out go answers, or None: then the query is forwarded to the server
it was sent to, which resolves all other names (nameserver.go).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from typing import Any, Final

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rdata
import dns.rrset
from dns.message import QueryMessage
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType

from core.ids import NetworkId, TenantName
from netplugin.world.dns_records import Address, DnsRecords

TTL: Final = 120
MAX_RECORDS: Final = 10
# Queries come from pods and are untrusted, and dnspython parses them in the agent's event loop. The
# limits are checked before it sees a message: they bound the time that one packet can cost. A query
# beyond them is not refused but forwarded, like any other that this server does not answer.
MAX_QUESTION: Final = 512
"""Largest query in bytes; a query for a name is smaller."""

MAX_PARTS: Final = 8
"""Largest number of questions and records in a query; usual are one or two."""

_COUNTS: Final = range(4, 12, 2)
"""Offsets of the header's four counts of questions and records."""

MAX_MESSAGE: Final = 65535

_FAMILIES: Final[dict[int, tuple[type[Address], ...]]] = {
    RdataType.A: (IPv4Address,),
    RdataType.AAAA: (IPv6Address,),
    RdataType.ANY: (IPv4Address, IPv6Address),
}


class NameServer:
    """One per agent. `resolve` is the resolver of both bridges."""

    def __init__(self, records: DnsRecords) -> None:
        self._records = records
        self._stats: defaultdict[TenantName, Counter[str]] = defaultdict(Counter)
        self._turns = count()

    def resolve(self, network: NetworkId, message: bytes) -> bytes | None:
        """Return the answer to a message from a pod of a network; None to forward it."""
        tenant = self._records.tenants.of(network)
        query = _query(message)
        if query is None:
            self._stats[tenant]["invalidQuery"] += 1
            return None
        found = [self._addresses(tenant, asked) for asked in query.question]
        if all(addresses is None for addresses in found):
            self._stats[tenant]["noNameRecord"] += 1
            return None
        self._stats[tenant]["foundNameRecord"] += 1
        reply = dns.message.make_response(query, recursion_available=True, our_payload=MAX_QUESTION)
        reply.flags |= dns.flags.AA
        for asked, addresses in zip(query.question, found, strict=True):
            records = [_record(ip_address(text)) for text in self._some(addresses or [])]
            if records:
                reply.answer.append(dns.rrset.from_rdata_list(asked.name, TTL, records))
        return reply.to_wire(max_size=MAX_MESSAGE)

    def report(self) -> dict[str, Any]:
        """Return names and counters in the original's JSON; its queues are always empty here."""
        return {
            "serviceQueue": 0,
            "endpointQueue": 0,
            "dnsRecords": self._records.report(),
            "stats": {tenant: dict(counters) for tenant, counters in self._stats.items()},
        }

    def _addresses(self, tenant: TenantName, asked: dns.rrset.RRset) -> Sequence[str] | None:
        """Return the addresses that answer a question; None for an unknown name.

        Empty if the name has addresses of the other family only.
        """
        if asked.rdclass != RdataClass.IN:
            return None
        name = asked.name.to_text(omit_final_dot=True)
        families = _FAMILIES.get(asked.rdtype, ())
        found = [self._records.lookup(tenant, name, family) for family in families]
        known = [addresses for addresses in found if addresses is not None]
        return next(filter(None, known), []) if known else None

    def _some(self, addresses: Sequence[str]) -> list[str]:
        """Return up to `MAX_RECORDS` addresses, another part of them for each query."""
        first, size = next(self._turns), len(addresses)
        return [addresses[(first + turn) % size] for turn in range(min(size, MAX_RECORDS))]


def _query(message: bytes) -> QueryMessage | None:
    """Return a message as a query; None if it is malformed, signed, or not a query."""
    parts = sum(int.from_bytes(message[at : at + 2], "big") for at in _COUNTS)
    if len(message) > MAX_QUESTION or parts > MAX_PARTS:
        return None
    try:
        query = dns.message.from_wire(message)
    except dns.exception.DNSException:
        return None
    if not isinstance(query, QueryMessage) or query.opcode() != dns.opcode.QUERY:
        return None
    if query.flags & dns.flags.QR or query.edns > 0:  # a response, or an EDNS version other than 0
        return None
    return query


def _record(address: Address) -> dns.rdata.Rdata:
    rdtype = RdataType.A if isinstance(address, IPv4Address) else RdataType.AAAA
    packed = address.packed
    return dns.rdata.from_wire(RdataClass.IN, rdtype, packed, 0, len(packed))
