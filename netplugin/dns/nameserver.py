"""The name server for pods: answers queries for names of the pod's tenant and of Kubernetes.

In come questions that `ofnet.packets.dns_answers` extracts from frames, or
`netplugin.dns.tcp_server` reads from connections, and the names there are
(`netplugin.world.dns.dns_records`); out go answers, or what else becomes of a question. A name that
is not known here is left to the server it was asked of (nameserver.go).

Where the cluster has no other name server, the agent is that server: pods ask its address
(`--dns-address`). Of questions to this address it answers those alone that the switch has judged as
the pod's own packets (`ofnet.pipelines.features.cluster_dns`). A name below the cluster's zone that
is not known does not exist then, and other names are asked of servers outside
(`netplugin.dns.upstream`). Hosts ask the same address (`netplugin.dns.host_server`); bare names are
for pods alone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from typing import Any, Final, Protocol

from core.ids import DEFAULT_TENANT
from netplugin.dns import messages
from netplugin.dns.messages import Asked, Query, QuestionAnswer, Rcode, Records
from netplugin.dns.rate_limit import RateLimit
from netplugin.world.dns.dns_records import Address, Asker, DnsRecords
from netplugin.world.dns.kube_names import NameRecords
from ofnet.packets.dns_answers import Deferred, NameVerdict, Outcome, Question

TTL: Final = 120
KUBERNETES_TTL: Final = 5
"""Of the names of Kubernetes, which change with every pod: the default of its own name server."""

MAX_ALIASES: Final = 8
"""Aliases that are followed one after another; more are taken for a circle."""

MAX_RECORDS: Final = 10
"""Addresses told of a group at a time; behind a headless service all are told."""

_WEIGHT: Final = 100
_FAMILIES: Final[dict[str, tuple[type[Address], ...]]] = {
    "A": (IPv4Address,),
    "AAAA": (IPv6Address,),
    "ANY": (IPv4Address, IPv6Address),
}


class OutsideServers(Protocol):
    """The name servers outside the cluster."""

    def ask(
        self, message: bytes, done: Callable[[bytes | None], None], *, tcp: bool = False
    ) -> None:
        """Ask; `done` is called once, with the reply, or None if there was none."""


@dataclass(frozen=True, slots=True)
class ClusterDns:
    """The agent as the cluster's own name server: its address for pods, and whom it asks itself."""

    address: IPv4Address | IPv6Address
    outside: OutsideServers


@dataclass(frozen=True, slots=True)
class _Alias:
    """A name that stands for another, of the cluster or outside."""

    name: str


class NameServer:
    """One per agent. `resolve` is the resolver of both bridges.

    `own` is None where the cluster has another name server.
    """

    def __init__(
        self, records: DnsRecords, limit: RateLimit, own: ClusterDns | None = None
    ) -> None:
        self._records = records
        self._limit = limit
        self._own = own
        self._complete: Callable[[], bool] | None = None
        self._stats: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._turns = count()

    def follow(self, complete: Callable[[], bool]) -> None:
        """Take names from Kubernetes; `complete` tells whether all its services are known."""
        self._complete = complete

    def resolve(self, question: Question) -> Outcome:
        """Return the answer to a question of a pod, or what else becomes of it."""
        asker = self._records.asker(question.pod, question.network)
        stats = self._stats[asker.tenant]
        own = self._own if self._own and question.server == self._own.address else None
        limited = not self._limit.allows(question.pod)
        if limited or (own is not None and not question.judged):
            stats["limited" if limited else "unjudged"] += 1
            return NameVerdict.DROP
        return self._answer(asker, question.message, own, tcp=question.tcp)

    def of_host(self, message: bytes, *, tcp: bool) -> Outcome:
        """Return the answer to a question of this host itself to the cluster's name server.

        Nobody judges what a host sends, and its rate has no limit. DROP where that server is
        another one.
        """
        if self._own is None:
            return NameVerdict.DROP
        return self._answer(Asker(DEFAULT_TENANT), message, self._own, tcp=tcp)

    def _answer(
        self, asker: Asker, message: bytes, own: ClusterDns | None, *, tcp: bool
    ) -> Outcome:
        stats = self._stats[asker.tenant]
        query = messages.read(message)
        if query is None:
            stats["invalidQuery"] += 1
            return NameVerdict.FORWARD if own is None else NameVerdict.DROP
        found = [self._found(asker, asked) for asked in query.questions]
        limit = messages.STREAM if tcp else query.datagram_limit
        match found:
            case [_Alias(name)]:
                stats["foundNameRecord"] += 1
                alias = (asker, query, name, limit)
                return self._by_alias(*alias, own) if own else NameVerdict.FORWARD
            case _:
                answers = [one if isinstance(one, QuestionAnswer) else None for one in found]
        if any(answers):
            stats["foundNameRecord"] += 1
            return query.answered(answers, limit)
        stats["noNameRecord"] += 1
        if own is None:
            return NameVerdict.FORWARD
        return self._not_here(query, message, own, limit, tcp=tcp)

    def totals(self) -> Counter[str]:
        """Return the counters, summed over all tenants."""
        total: Counter[str] = Counter()
        for counters in self._stats.values():
            total.update(counters)
        return total

    def report(self) -> dict[str, Any]:
        """Return names and counters in the original's JSON; its queues are always empty here."""
        return {
            "serviceQueue": 0,
            "endpointQueue": 0,
            "dnsRecords": self._records.report(),
            "stats": {tenant: dict(counters) for tenant, counters in self._stats.items()},
        }

    # -- what is known -------------------------------------------------------------------------

    def _found(self, asker: Asker, asked: Asked) -> QuestionAnswer | _Alias | None:
        """Return the answer to one question; None if the name is not known here."""
        if not asked.rdtype:
            return None
        kube, zone = self._records.of_kubernetes(asker, asked.name), self._records.kube.zone
        ours = self._records.kube.covers(asked.name)
        if kube is not None and (ours or kube.pointers):
            return self._of_kubernetes(asked, kube, zone)
        unknown = self._complete is not None and not self._complete()
        if ours and self._own is not None and self._complete is not None and not unknown:
            return QuestionAnswer(Rcode.NXDOMAIN, zone=zone)
        if kube is None and unknown and asker.namespace:
            return None  # it may be a service's, which comes before all others
        if asker.network is None:
            return None  # a host's own name server shall say what a bare name is there
        return self._bare(asker, asked, TTL if kube is None else KUBERNETES_TTL)

    def _bare(self, asker: Asker, asked: Asked, ttl: int) -> QuestionAnswer | None:
        """Return the answer for a name without the cluster's zone."""
        families = _FAMILIES.get(asked.rdtype, ())
        found = [self._records.lookup(asker, asked.name, one) for one in families or (IPv4Address,)]
        if None in found:
            return None
        # A name that exists has an empty answer for all other types. If such a question went on, it
        # would come back as "no such name", which resolvers take for all types (RFC 8020). The name
        # has no zone here, thus the answer no SOA: it is not remembered (RFC 2308).
        held = next(filter(None, found), ()) if families else ()
        some = tuple(_address(text) for text in self._some(held))
        if not some:
            return QuestionAnswer()
        return QuestionAnswer(
            records=(Records("A" if some[0].version == 4 else "AAAA", ttl, some),)
        )

    def _of_kubernetes(self, asked: Asked, kube: NameRecords, zone: str) -> QuestionAnswer | _Alias:
        if kube.alias and asked.rdtype in {"A", "AAAA"}:
            return _Alias(kube.alias)
        addresses = (*kube.addresses, *(one.address for one in kube.members))
        held: dict[str, Iterable[Address | str]] = {
            "A": self._turned([one for one in addresses if one.version == 4]),
            "AAAA": self._turned([one for one in addresses if one.version == 6]),
            "SRV": [
                f"0 {_WEIGHT // len(kube.servers) or 1} {one.port} {one.host}."
                for one in kube.servers
            ],
            "PTR": [f"{name}." for name, _ in kube.pointers],
            "CNAME": [f"{kube.alias}."] if kube.alias else [],
            "TXT": [f'"{kube.text}"'] if kube.text else [],
        }
        wanted = held.keys() if asked.rdtype == "ANY" else {asked.rdtype} & held.keys()
        given = ((kind, values) for kind in wanted if (values := tuple(held[kind])))
        records = tuple(Records(kind, KUBERNETES_TTL, values) for kind, values in given)
        return QuestionAnswer(records=records, zone="" if records else zone)

    def _some(self, addresses: Sequence[str]) -> list[str]:
        """Return up to `MAX_RECORDS` addresses, another part of them for each query."""
        first, size = next(self._turns), len(addresses)
        return [addresses[(first + turn) % size] for turn in range(min(size, MAX_RECORDS))]

    def _turned(self, addresses: list[Address]) -> list[Address]:
        """Return addresses with another one first for each query."""
        first = next(self._turns) % len(addresses) if addresses else 0
        return addresses[first:] + addresses[:first]

    # -- what stands for something else --------------------------------------------------------

    def _by_alias(
        self, asker: Asker, query: Query, name: str, limit: int, own: ClusterDns
    ) -> Outcome:
        """Return the answer for a name that stands for another, here or outside."""
        (asked,) = query.questions
        chain = [_alias("", name)]
        while len(chain) <= MAX_ALIASES:
            if not self._records.kube.covers(name):
                return _outside(query, chain, name, limit, own)
            match self._found(asker, Asked(name, asked.rdtype)):
                case _Alias(alias):
                    chain.append(_alias(name, alias))
                    name = alias
                case QuestionAnswer(rcode, records, zone):
                    here = (replace(one, name=one.name or name) for one in records)
                    return query.answered([QuestionAnswer(rcode, (*chain, *here), zone)], limit)
                case None:
                    break
        return query.answered([QuestionAnswer(Rcode.SERVFAIL)], limit)

    # -- what is not ---------------------------------------------------------------------------

    def _not_here(
        self, query: Query, message: bytes, own: ClusterDns, limit: int, *, tcp: bool
    ) -> Outcome:
        """Ask a server outside; what belongs to the cluster's zone is for no one outside."""
        failure = query.answered([QuestionAnswer(Rcode.SERVFAIL) for _ in query.questions], limit)
        if any(self._records.kube.covers(asked.name) for asked in query.questions):
            return failure  # the services of Kubernetes are not all known yet

        def ask(answer: Callable[[bytes], None]) -> None:
            own.outside.ask(message, lambda reply: answer(reply or failure), tcp=tcp)

        return Deferred(ask)


_address = lru_cache(messages.KEPT)(ip_address)


def _alias(name: str, alias: str) -> Records:
    """Return the record of an alias; a name of "" is that of the question."""
    return Records("CNAME", KUBERNETES_TTL, (f"{alias}.",), name)


def _outside(
    query: Query, chain: Iterable[Records], name: str, limit: int, own: ClusterDns
) -> Deferred:
    """Return the answer for aliases that end at a name outside, with the addresses of that one."""
    (asked,) = query.questions

    def ask(answer: Callable[[bytes], None]) -> None:
        def done(reply: bytes | None) -> None:
            whole = query.answered_by_alias(chain, reply or b"", limit)
            answer(whole or query.answered([QuestionAnswer(Rcode.SERVFAIL)], limit))

        own.outside.ask(messages.question_for(name, asked.rdtype), done)

    return Deferred(ask)
