"""How the agent's client reads answers; its behaviour on the wire is an integration test."""

import json

import pytest

from contivmodel.client import EndpointReply, _read, _refusal
from core.errors import (
    ContivError,
    Exhausted,
    MasterRefused,
    MasterUnavailable,
    NotFound,
    NotLeader,
)

EXHAUSTED = "auto allocation failed - address exhaustion in subnet 10.1.2.0/29"


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (500, "Leader not found\n", NotLeader, "Leader not found"),
        (500, "Self proxying error\n", MasterUnavailable, "Self proxying error"),
        (500, f"{EXHAUSTED}\nstack [x.go 1]\n", Exhausted, EXHAUSTED),
        (500, "key not found\nstack\n", NotFound, "key not found"),
        (500, "network not found\n", NotFound, "network not found"),
        (500, "bad thing\nstack\n", MasterRefused, "bad thing"),
        (500, "", MasterUnavailable, "500 R"),
        (502, "", MasterUnavailable, "502 R"),
        (503, "later", MasterUnavailable, "503 R"),
        (404, "404 page not found\n", MasterRefused, "404 R"),
        (301, "", MasterRefused, "301 R"),
    ],
)
def test_a_refusal_is_an_error_of_its_kind(
    status: int, body: str, error: type[ContivError], message: str
) -> None:
    refusal = _refusal(status, "R", body.encode())
    assert type(refusal) is error
    assert str(refusal) == message


def test_an_answer_from_half_way_leaves_the_outcome_unknown() -> None:
    refusal = _refusal(502, "Bad Gateway", b"")
    assert isinstance(refusal, MasterUnavailable)
    assert refusal.outcome_unknown


@pytest.mark.parametrize(
    ("outcome", "unknown"),
    [("refused", False), ("absent", False), ("unknown", True), (None, True)],
)
def test_a_netmaster_says_whether_the_outcome_is_known(outcome: str | None, unknown: bool) -> None:
    """The finding of docs/notes/trust.md §9."""
    headers = {"Retry-After": "1"} | ({"Contiv-Outcome": outcome} if outcome else {})
    refusal = _refusal(500, "R", b"try again\n", headers)
    assert isinstance(refusal, MasterUnavailable)
    assert (str(refusal), refusal.outcome_unknown) == ("try again", unknown)
    no_leader = _refusal(500, "R", b"Leader not found\n", headers)
    assert isinstance(no_leader, NotLeader)


def test_a_record_is_read_by_its_wire_names() -> None:
    body = {
        "EndpointConfig": {
            "id": "n1.default-ep1",
            "netID": "n1.default",
            "endpointID": "ep1",
            "serviceName": "g1",
            "endpointGroupId": 1,
            "endpointGroupKey": "g1:default",
            "ipAddress": "10.1.1.1",
            "ipv6Address": "2001:db8::1",
            "macAddress": "02:02:0a:01:01:01",
            "homingHost": "h1",
            "intfName": "",
            "vtepIP": "",
            "labels": None,
            "containerId": "",
            "epCommonName": "c1",
            "later": {"unknown": True},
        }
    }
    endpoint = _read(EndpointReply, json.dumps(body).encode()).endpoint
    assert (endpoint.endpoint_id, endpoint.group_id) == ("ep1", 1)
    assert (endpoint.ip_address, endpoint.ipv6_address) == ("10.1.1.1", "2001:db8::1")
    assert endpoint.mac_address == "02:02:0a:01:01:01"
    assert endpoint.labels is None


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"EndpointConfig": {"id": 5}}'])
def test_an_unreadable_answer_is_refused(body: bytes) -> None:
    with pytest.raises(MasterRefused, match="answer cannot be read"):
        _read(EndpointReply, body)
