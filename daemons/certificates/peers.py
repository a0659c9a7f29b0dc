"""The identity in a peer's certificate, and what each role may do at an agent. Pure.

A certificate of this cluster has the subject `O=contiv, OU=<role>, CN=<name>`;
`netmaster.commands.ca` issues it. `identity_of` reads the subject, `agent_api_allows` and
`rpc_allows` decide for the listeners of both daemons. What a role may do at netmaster's REST API is
in `netmaster.auth.roles`.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

ORGANIZATION: Final = "contiv"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,63}")
"""Names in certificates and of users. X.509 limits a common name to 64 characters."""

_SUBJECT: Final = ("commonName", "organizationName", "organizationalUnitName")


class Role(StrEnum):
    """Who a peer is. The values are the organizational units of certificates."""

    MASTER = "master"
    AGENT = "agent"
    ADMIN = "admin"
    OPERATOR = "operator"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """A peer whose certificate was verified.

    `name` is the host label of an agent, else the name of a master or a user. `addresses` are the
    IP addresses in the certificate, in canonical text.
    """

    role: Role
    name: str
    addresses: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        return f"{self.role}/{self.name}"


def identity_of(certificate: Mapping[str, Any] | None) -> PeerIdentity | None:
    """Return the identity in the result of `ssl.SSLSocket.getpeercert()`.

    None without a certificate, for one that was not verified (an empty mapping), and for any
    subject other than exactly one organization, one known role and one well-formed name.
    """
    if not certificate:
        return None
    # All attributes count, not the first of each kind: a subject with two units would otherwise
    # have one role for this code and another one for a reader of the certificate.
    attributes = sorted(_attributes(certificate.get("subject")))
    if tuple(kind for kind, _ in attributes) != _SUBJECT:
        return None
    name, organization, unit = (value for _, value in attributes)
    if organization != ORGANIZATION or unit not in set(Role) or not NAME.fullmatch(name):
        return None
    return PeerIdentity(Role(unit), name, frozenset(_addresses(certificate.get("subjectAltName"))))


_READS: Final = frozenset({Role.MASTER, Role.ADMIN, Role.READER})
_CHANGES: Final = frozenset({Role.MASTER, Role.ADMIN})


def agent_api_allows(peer: PeerIdentity | None, method: str) -> bool:
    """Return whether a peer may send a request of a method to the REST API of an agent.

    That API shows all of a host (`/inspect`, `/svcstats`, `/debug`) and reclaims endpoints
    (`DELETE /debug/reclaimEndpoint`), so tenants' operators and other agents have no access.
    """
    return peer is not None and peer.role in (_READS if method == "GET" else _CHANGES)


def rpc_allows(
    peer: PeerIdentity | None, method: str, *, host: str = "", address: str = ""
) -> bool:
    """Return whether a peer may call an RPC method of the control channel.

    Agents call `OfnetMaster.*`, and only about themselves: `host` is the label and `address` the
    IP address in the argument, "" where the argument has none. Masters call `OfnetAgent.*`.
    """
    if peer is None:
        return False
    service = method.partition(".")[0]
    if service == "OfnetAgent":
        return peer.role is Role.MASTER
    if service != "OfnetMaster" or peer.role is not Role.AGENT:
        return False
    return host in {"", peer.name} and (not address or address in peer.addresses)


def rpc_call_allows(peer: PeerIdentity | None, method: str, argument: Any) -> bool:
    """Return whether a peer may make a call of the control channel with this argument."""
    given = argument if isinstance(argument, dict) else {}
    host, address = given.get("Host", ""), given.get("HostAddr", "")
    # Other types are wrong arguments, which the method refuses with a text of its own.
    return rpc_allows(
        peer,
        method,
        host=host if isinstance(host, str) else "",
        address=address if isinstance(address, str) else "",
    )


def _attributes(subject: Any) -> Iterator[tuple[str, str]]:
    for relative_name in subject or ():
        yield from relative_name


def _addresses(alternatives: Any) -> Iterator[str]:
    for kind, value in alternatives or ():
        if kind == "IP Address":
            # OpenSSL prints IPv6 addresses uncompressed, in some versions with a newline.
            yield str(ipaddress.ip_address(value.strip()))
