"""The identity of a client whose request a follower sends on to the leader. Pure.

The leader sees the follower's certificate. The follower names its client in a header, which it
sets itself in every request; a token is sent on as it is, and the leader verifies it again.
"""

from typing import Final

from daemons.certificates.peers import NAME, PeerIdentity, Role

FORWARDED_IDENTITY: Final = "X-Contiv-Identity"
ANONYMOUS: Final = "anonymous"


def forwarded(identity: PeerIdentity | None) -> str:
    """Return the value of `FORWARDED_IDENTITY` for a client; a follower always sets the header."""
    return ANONYMOUS if identity is None else str(identity)


def client_of(peer: PeerIdentity | None, header: str | None) -> PeerIdentity | None:
    """Return the client of a request: the peer, or whom a master names that sends it on.

    From any other peer the header has no effect. A master names another client than a master, or
    itself.
    """
    if peer is None or peer.role is not Role.MASTER:
        return peer
    # A master that names no client has not checked one. Its own identity must not stand in:
    # a follower that loses the header would lend every client a master's rights.
    role, _, name = (header or ANONYMOUS).partition("/")
    if role not in set(Role) or not NAME.fullmatch(name):
        return None
    if role == Role.MASTER:
        return peer if name == peer.name else None
    return PeerIdentity(Role(role), name)
