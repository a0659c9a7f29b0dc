"""Reads queries and writes answers (RFC 1035, RFC 6891): the only module that imports dnspython.

Must not know which names there are (`netplugin.dns.nameserver`). Queries come from pods and are
untrusted, and are parsed in the agent's event loop: the limits here are checked before the library
sees a message. They bound the time that one packet can cost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rrset
from dns.message import Message, QueryMessage
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType

Address = IPv4Address | IPv6Address

MAX_QUESTION: Final = 512
"""Largest query in bytes that is read; a query for a name is smaller."""

MAX_PARTS: Final = 8
"""Largest number of questions and records in a query; usual are one or two."""

PLAIN: Final = 512
"""Bytes of the largest answer by UDP to a query without EDNS (RFC 1035 §4.2.1)."""

PAYLOAD: Final = 1232
"""Bytes of the largest answer by UDP at all: it fits into every path of IPv6's smallest MTU."""

STREAM: Final = 65_535
"""Bytes of the largest answer by TCP."""

NEGATIVE_TTL: Final = 5
"""Seconds for which a resolver may remember that a name of the cluster does not exist."""

_COUNTS: Final = range(4, 12, 2)
"""Offsets of the header's four counts of questions and records."""


class Rcode(StrEnum):
    """What an answer says of the question."""

    NOERROR = "NOERROR"
    NXDOMAIN = "NXDOMAIN"
    SERVFAIL = "SERVFAIL"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: a name in lower case, without its final dot, and a type such as `AAAA`.

    The type is "" for another class than IN.
    """

    name: str
    rdtype: str


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one name and type: of the question's name, unless `name` says another.

    `values` are addresses, or records in the text form of zone files (RFC 1035 §5.1).
    """

    rdtype: str
    ttl: int
    values: Sequence[Address | str]
    name: str = ""


@dataclass(slots=True)
class Answer:
    """The answer to one question; `zone` is the one whose name or type does not exist."""

    rcode: Rcode = Rcode.NOERROR
    records: list[Records] = field(default_factory=list)
    zone: str = ""


class Query:
    """A query that can be answered."""

    def __init__(self, message: QueryMessage) -> None:
        self._message = message
        self.questions = [_asked(one) for one in message.question]

    @property
    def datagram_limit(self) -> int:
        """Bytes of the largest answer by UDP that the asker takes."""
        if self._message.edns < 0:
            return PLAIN
        return min(max(self._message.payload, PLAIN), PAYLOAD)

    def answered(self, answers: Iterable[Answer | None], limit: int) -> bytes:
        """Return the message with an answer for each question, None for one without.

        What does not fit into so many bytes is left out, and the message says so.
        """
        reply = self._reply()
        for question, answer in zip(self._message.question, answers, strict=True):
            if answer is None:
                continue
            reply.set_rcode(dns.rcode.from_text(answer.rcode))
            for records in answer.records:
                owner = dns.name.from_text(records.name) if records.name else question.name
                if records.values:
                    reply.answer.append(_rrset(owner, records))
            if answer.zone:
                reply.authority.append(_soa(answer.zone))
        return reply.to_wire(max_size=limit, prefer_truncation=True)

    def answered_by_alias(self, alias: str, ttl: int, reply: bytes, limit: int) -> bytes | None:
        """Return the answer that its name stands for another, with a reply about the other one.

        None if the reply is none.
        """
        try:
            known = dns.message.from_wire(reply)
        except dns.exception.DNSException:
            return None
        (question,) = self._message.question
        own = self._reply()
        own.set_rcode(known.rcode())
        own.answer.append(_rrset(question.name, Records("CNAME", ttl, [f"{alias}."])))
        own.answer.extend(known.answer)
        return own.to_wire(max_size=limit, prefer_truncation=True)

    def _reply(self) -> Message:
        reply = dns.message.make_response(
            self._message, recursion_available=True, our_payload=PAYLOAD
        )
        reply.flags |= dns.flags.AA
        return reply


def read(message: bytes) -> Query | None:
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
    return Query(query)


def question_for(name: str, rdtype: str) -> bytes:
    """Return a query for a name, by UDP with EDNS."""
    return dns.message.make_query(name, rdtype, use_edns=0, payload=PAYLOAD).to_wire()


def is_truncated(reply: bytes) -> bool:
    """Return whether a reply says that something was left out of it."""
    return bool(int.from_bytes(reply[2:4], "big") & dns.flags.TC)


def _asked(question: dns.rrset.RRset) -> Asked:
    name = question.name.to_text(omit_final_dot=True).lower()
    known = question.rdclass == RdataClass.IN
    return Asked(name, RdataType.to_text(question.rdtype) if known else "")


def _rrset(owner: dns.name.Name, records: Records) -> dns.rrset.RRset:
    rdtype = RdataType.from_text(records.rdtype)
    values = [_rdata(rdtype, value) for value in records.values]
    return dns.rrset.from_rdata_list(owner, records.ttl, values)


@lru_cache(maxsize=4096)
def _rdata(rdtype: RdataType, value: Address | str) -> dns.rdata.Rdata:
    if isinstance(value, str):
        return dns.rdata.from_text(RdataClass.IN, rdtype, value)
    packed = value.packed
    return dns.rdata.from_wire(RdataClass.IN, rdtype, packed, 0, len(packed))


def _soa(zone: str) -> dns.rrset.RRset:
    value = f"ns.dns.{zone}. hostmaster.{zone}. 1 7200 1800 86400 {NEGATIVE_TTL}"
    return _rrset(dns.name.from_text(zone), Records("SOA", NEGATIVE_TTL, [value]))
