"""Answers the pods' DNS requests for names of their tenant; the only module that knows dnspython.

In come the messages that `ofnet.names` takes out of frames, and who has which name
(`netplugin.world.dns_records`); out go answers, or None: then the request goes on to the server it
was sent to, which knows the rest of the world (docs/original/misc-host.md §1).
Messages come from pods and are untrusted: what cannot be read is no question.
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
MAX_QUESTION: Final = 512
"""Bytes; whoever sends a larger message asks for something else than a name."""

MAX_PARTS: Final = 8
"""Questions and records of a message; usually there are one or two, and each takes its time."""

_COUNTS: Final = range(4, 12, 2)
"""Where a message says how many questions and records it has."""

MAX_MESSAGE: Final = 65535

_FAMILIES: Final[dict[int, tuple[type[Address], ...]]] = {
    RdataType.A: (IPv4Address,),
    RdataType.AAAA: (IPv6Address,),
    RdataType.ANY: (IPv4Address, IPv6Address),
}


class NameServer:
    """One per agent. `resolve` is the resolver of both bridges."""

    def __init__(self, book: DnsRecords) -> None:
        self._book = book
        self._stats: defaultdict[TenantName, Counter[str]] = defaultdict(Counter)
        self._turns = count()

    def resolve(self, network: NetworkId, message: bytes) -> bytes | None:
        """Return the answer to a message from a pod of a network; None if it is to go on."""
        tenant = self._book.tenants.of(network)
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
        """Return names and counters in the original's JSON; nothing is ever left in a queue."""
        return {
            "serviceQueue": 0,
            "endpointQueue": 0,
            "dnsRecords": self._book.report(),
            "stats": {tenant: dict(counters) for tenant, counters in self._stats.items()},
        }

    def _addresses(self, tenant: TenantName, asked: dns.rrset.RRset) -> Sequence[str] | None:
        """Return what answers a question; None if nobody here can.

        It is nothing if the name has addresses of the other family only.
        """
        if asked.rdclass != RdataClass.IN:
            return None
        name = asked.name.to_text(omit_final_dot=True)
        families = _FAMILIES.get(asked.rdtype, ())
        found = [self._book.lookup(tenant, name, family) for family in families]
        known = [addresses for addresses in found if addresses is not None]
        return next(filter(None, known), []) if known else None

    def _some(self, addresses: Sequence[str]) -> list[str]:
        """Return as many as an answer has, not always the same; dnspython shuffles them."""
        first, size = next(self._turns), len(addresses)
        return [addresses[(first + turn) % size] for turn in range(min(size, MAX_RECORDS))]


def _query(message: bytes) -> QueryMessage | None:
    """Return a message as a query; None if it is none, is signed, or cannot be read."""
    parts = sum(int.from_bytes(message[at : at + 2], "big") for at in _COUNTS)
    if len(message) > MAX_QUESTION or parts > MAX_PARTS:
        return None
    try:
        query = dns.message.from_wire(message)
    except dns.exception.DNSException:
        return None
    if not isinstance(query, QueryMessage) or query.opcode() != dns.opcode.QUERY:
        return None
    if query.flags & dns.flags.QR or query.edns > 0:  # an answer; an EDNS we do not know
        return None
    return query


def _record(address: Address) -> dns.rdata.Rdata:
    rdtype = RdataType.A if isinstance(address, IPv4Address) else RdataType.AAAA
    packed = address.packed
    return dns.rdata.from_wire(RdataClass.IN, rdtype, packed, 0, len(packed))
