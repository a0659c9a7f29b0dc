"""Which certificate is whose, and what a peer may do at an agent and by RPC."""

from typing import Any

import pytest

from daemons.certificates.peers import PeerIdentity, Role, agent_api_allows, identity_of, rpc_allows

AGENT = PeerIdentity(Role.AGENT, "h1", frozenset({"192.0.2.1"}))


def certificate(*attributes: tuple[str, str], names: tuple[tuple[str, str], ...] = ()) -> Any:
    """Return what `getpeercert` returns for a subject, one attribute per relative name."""
    return {
        "subject": tuple((attribute,) for attribute in attributes),
        "subjectAltName": names,
        "issuer": ((("organizationName", "contiv"),),),
    }


ORGANIZATION = ("organizationName", "contiv")
UNIT = ("organizationalUnitName", "agent")
NAME = ("commonName", "h1")


@pytest.mark.parametrize("role", Role)
def test_role_and_name_are_read_from_the_subject(role: Role) -> None:
    found = identity_of(certificate(ORGANIZATION, ("organizationalUnitName", role), NAME))
    assert found == PeerIdentity(role, "h1")
    assert str(found) == f"{role}/h1"


def test_addresses_are_read_in_canonical_text() -> None:
    names = (("IP Address", "192.0.2.1"), ("DNS", "h1"), ("IP Address", "2001:DB8:0:0:0:0:0:1\n"))
    found = identity_of(certificate(ORGANIZATION, UNIT, NAME, names=names))
    assert found is not None
    assert found.addresses == {"192.0.2.1", "2001:db8::1"}


@pytest.mark.parametrize(
    "attributes",
    [
        (UNIT, NAME),
        (ORGANIZATION, NAME),
        (ORGANIZATION, UNIT),
        (("organizationName", "Contiv"), UNIT, NAME),
        (ORGANIZATION, ("organizationalUnitName", "root"), NAME),
        (ORGANIZATION, ("organizationalUnitName", ""), NAME),
        (ORGANIZATION, UNIT, ("organizationalUnitName", "admin"), NAME),
        (ORGANIZATION, UNIT, NAME, ("commonName", "h2")),
        (ORGANIZATION, UNIT, NAME, ("localityName", "here")),
        (ORGANIZATION, UNIT, ("commonName", "")),
        (ORGANIZATION, UNIT, ("commonName", "h1/h2")),
        (ORGANIZATION, UNIT, ("commonName", "h1\n")),
        (ORGANIZATION, UNIT, ("commonName", "h" * 65)),
    ],
)
def test_any_other_subject_is_no_identity(attributes: tuple[tuple[str, str], ...]) -> None:
    assert identity_of(certificate(*attributes)) is None


def test_attributes_of_one_relative_name_count_each() -> None:
    joined = {"subject": ((ORGANIZATION, UNIT, NAME),)}
    assert identity_of(joined) == PeerIdentity(Role.AGENT, "h1")


@pytest.mark.parametrize("none", [None, {}, {"subject": ()}, {"issuer": ()}])
def test_no_verified_certificate_is_no_identity(none: Any) -> None:
    assert identity_of(none) is None


@pytest.mark.parametrize(
    ("role", "reads", "changes"),
    [
        (Role.MASTER, True, True),
        (Role.ADMIN, True, True),
        (Role.READER, True, False),
        (Role.OPERATOR, False, False),
        (Role.AGENT, False, False),
        (None, False, False),
    ],
)
def test_who_may_do_what_at_an_agent(role: Role | None, reads: bool, changes: bool) -> None:
    peer = None if role is None else PeerIdentity(role, "n1")
    assert agent_api_allows(peer, "GET") is reads
    assert agent_api_allows(peer, "DELETE") is changes
    assert agent_api_allows(peer, "POST") is changes
    assert agent_api_allows(peer, "get") is changes


@pytest.mark.parametrize("role", [*Role, None])
def test_each_side_of_the_control_channel_calls_the_other(role: Role | None) -> None:
    peer = None if role is None else PeerIdentity(role, "n1", frozenset({"192.0.2.1"}))
    assert rpc_allows(peer, "OfnetMaster.Report", host="n1") is (role is Role.AGENT)
    assert rpc_allows(peer, "OfnetAgent.AddMaster") is (role is Role.MASTER)
    assert rpc_allows(peer, "OfnetAgent.Inspect") is (role is Role.MASTER)
    assert not rpc_allows(peer, "Other.Method")
    assert not rpc_allows(peer, "")


@pytest.mark.parametrize(
    ("host", "address", "allowed"),
    [
        ("h1", "192.0.2.1", True),
        ("", "192.0.2.1", True),
        ("h2", "192.0.2.1", False),
        ("h1", "192.0.2.2", False),
        ("", "192.0.2.2", False),
    ],
)
def test_an_agent_speaks_for_its_own_host_only(host: str, address: str, allowed: bool) -> None:
    assert rpc_allows(AGENT, "OfnetMaster.RegisterNode", host=host, address=address) is allowed
