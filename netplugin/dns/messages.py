"""Reads queries and writes answers (RFC 1035, RFC 6891): the only module that imports dnspython.

Must not know which names there are (`netplugin.dns.nameserver`). Queries come from pods and are
untrusted, and are parsed in the agent's event loop: the limits here are checked before the library
sees a message. They bound the time that one packet can cost.
"""

# Pods ask the same again and again, and dnspython takes most of a millisecond to read a query and
# write its answer. Two queries that differ in nothing but their id mean the same, and so do their
# answers if what is known is the same. So both steps are functions of bytes and records, and their
# results are kept: nothing has to be forgotten when a record changes. What is kept is bounded, in
# number and size, for pods choose what they ask.

from collections.abc import Iterable
from dataclasses import dataclass
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

KEPT: Final = 4096
"""Queries, and answers, that are kept, of the latest ones."""

_MANY: Final = 64
"""Values of an answer that is not kept any more."""

_ID: Final = 2
"""Bytes of the id, with which a message begins."""

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
    values: tuple[Address | str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """The answer to one question; `zone` is the one whose name or type does not exist."""

    rcode: Rcode = Rcode.NOERROR
    records: tuple[Records, ...] = ()
    zone: str = ""


Answers = tuple[QuestionAnswer | None, ...]
"""An answer for each question of a query, None for one without."""


class _Content:
    """What a query says beside its id."""

    def __init__(self, message: QueryMessage) -> None:
        self.message = message
        self.questions = [_asked(one) for one in message.question]

    @property
    def datagram_limit(self) -> int:
        if self.message.edns < 0:
            return PLAIN
        return min(max(self.message.payload, PLAIN), PAYLOAD)

    def reply(self) -> Message:
        """Return a reply without records."""
        reply = dns.message.make_response(
            self.message, recursion_available=True, our_payload=PAYLOAD
        )
        reply.flags |= dns.flags.AA
        return reply


class Query:
    """A query that can be answered."""

    def __init__(self, message: bytes, content: _Content) -> None:
        self._id = message[:_ID]
        self._rest = message[_ID:]
        self._content = content
        self.questions = content.questions
        self.datagram_limit = content.datagram_limit
        """Bytes of the largest answer by UDP that the asker takes."""

    def answered(self, answers: Iterable[QuestionAnswer | None], limit: int) -> bytes:
        """Return the message with an answer for each question, None for one without.

        What does not fit into so many bytes is left out, and the message says so.
        """
        given = tuple(answers)
        write = _written if limit <= PAYLOAD and _size(given) < _MANY else _written.__wrapped__
        return self._id + write(self._rest, given, limit)

    def answered_by_alias(self, chain: Iterable[Records], reply: bytes, limit: int) -> bytes | None:
        """Return the answer that its name stands for another, with a reply about the last one.

        `chain` has the aliases in their order. None if the reply is none.
        """
        try:
            known = dns.message.from_wire(reply)
        except dns.exception.DNSException:
            return None
        (question,) = self._content.message.question
        own = self._content.reply()
        own.set_rcode(known.rcode())
        own.answer.extend(_rrset(_owner(question, one), one) for one in chain)
        own.answer.extend(known.answer)
        return self._id + own.to_wire(max_size=limit, prefer_truncation=True)[_ID:]


def read(message: bytes) -> Query | None:
    """Return a message as a query; None if it is malformed, signed, or not a query."""
    content = _content(message[_ID:]) if len(message) <= MAX_QUESTION else None
    return Query(message, content) if content is not None else None


@lru_cache(KEPT)
def _content(rest: bytes) -> _Content | None:
    message = bytes(_ID) + rest
    if sum(int.from_bytes(message[at : at + 2], "big") for at in _COUNTS) > MAX_PARTS:
        return None
    try:
        query = dns.message.from_wire(message)
    except dns.exception.DNSException:
        return None
    if not isinstance(query, QueryMessage) or query.opcode() != dns.opcode.QUERY:
        return None
    if query.flags & dns.flags.QR or query.edns > 0:  # a response, or an EDNS version other than 0
        return None
    return _Content(query)


@lru_cache(KEPT)
def _written(rest: bytes, answers: Answers, limit: int) -> bytes:
    """Return the answer to a query; both without their id, which is the same."""
    content = _content(rest)
    if content is None:
        raise ValueError("not a query")
    reply = content.reply()
    for question, answer in zip(content.message.question, answers, strict=True):
        if answer is None:
            continue
        reply.set_rcode(dns.rcode.from_text(answer.rcode))
        for records in answer.records:
            if records.values:
                reply.answer.append(_rrset(_owner(question, records), records))
        if answer.zone:
            reply.authority.append(_soa(answer.zone))
    return reply.to_wire(max_size=limit, prefer_truncation=True)[_ID:]


def _size(answers: Answers) -> int:
    given = (one.records for one in answers if one is not None)
    return sum(len(one.values) for records in given for one in records)


def question_for(name: str, rdtype: str) -> bytes:
    """Return a query for a name, by UDP with EDNS."""
    return dns.message.make_query(name, rdtype, use_edns=0, payload=PAYLOAD).to_wire()


def _asked(question: dns.rrset.RRset) -> Asked:
    name = question.name.to_text(omit_final_dot=True).lower()
    known = question.rdclass == RdataClass.IN
    return Asked(name, RdataType.to_text(question.rdtype) if known else "")


def _owner(question: dns.rrset.RRset, records: Records) -> dns.name.Name:
    return dns.name.from_text(records.name) if records.name else question.name


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
    return _rrset(dns.name.from_text(zone), Records("SOA", NEGATIVE_TTL, (value,)))
