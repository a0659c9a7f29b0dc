"""Conversations: records that rules do not tell apart are one, and names are a tenant's own."""

from dataclasses import replace

from state.conversations import Conversation, Party, of_records, shown
from state.flow_records import AUDITED, DROPPED, End
from tests.unit.state.flow_records import CROSSING, RECORD, WEB

PARTY = Party("sea", "web", "shop", "")


def test_connections_from_many_ports_are_one_conversation() -> None:
    again = replace(RECORD, source=End("10.1.0.3", 40001, WEB), packets=7)
    found = of_records([RECORD, again], "blue")
    assert found == {Conversation(PARTY, Party("", "", "", "fd00::5"), "tcp", 8080): 2}


def test_of_other_tenants_there_is_the_address_alone() -> None:
    (one,) = of_records([CROSSING], "blue")
    assert one.destination == Party("", "", "", "10.9.0.7")
    (one,) = of_records([CROSSING], "red")
    assert one.source == Party("", "", "", "10.1.0.2")
    assert of_records([CROSSING], "green") == {}


def test_of_drops_those_by_policies_are_told() -> None:
    dropped = replace(RECORD, verdict=DROPPED)
    reasons = ("policy", "kubernetes-policy", "spoofed")
    found = of_records([replace(dropped, reason=one) for one in reasons], "blue")
    assert {(one.dropped, count) for one, count in found.items()} == {(True, 2)}
    (told,) = shown(found)
    assert (told["connections"], told["dropped"]) == (2, True)
    assert told["source"] == PARTY._asdict()


def test_what_would_be_denied_is_no_conversation_of_its_own() -> None:
    assert of_records([replace(RECORD, verdict=AUDITED, reason="policy")], "blue") == {}
