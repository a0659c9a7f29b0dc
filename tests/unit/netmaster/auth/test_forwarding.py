"""Clients whose requests a follower sends on."""

import pytest

from daemons.certificates.peers import PeerIdentity, Role
from netmaster.auth.forwarding import ANONYMOUS, client_of, forwarded

MASTER = PeerIdentity(Role.MASTER, "m2")
AGENT = PeerIdentity(Role.AGENT, "h1")


@pytest.mark.parametrize("client", [AGENT, PeerIdentity(Role.ADMIN, "root"), None])
def test_the_leader_sees_the_followers_client(client: PeerIdentity | None) -> None:
    assert client_of(MASTER, forwarded(client)) == client


@pytest.mark.parametrize("header", [None, ANONYMOUS, "admin/root", "master/m2", "x"])
@pytest.mark.parametrize("peer", [AGENT, PeerIdentity(Role.ADMIN, "root"), None])
def test_no_other_peer_speaks_for_a_client(peer: PeerIdentity | None, header: str | None) -> None:
    assert client_of(peer, header) == peer


@pytest.mark.parametrize(
    "header",
    [None, "", ANONYMOUS, "admin", "admin/", "root/x", "admin/a b", "admin/a/b", "master/m1"],
)
def test_a_master_that_names_no_client_speaks_for_none(header: str | None) -> None:
    assert client_of(MASTER, header) is None


def test_a_master_names_itself() -> None:
    assert client_of(MASTER, "master/m2") == MASTER
