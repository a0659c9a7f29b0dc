"""Whose certificate a request is answered with: what the API server noted, nothing else."""

from typing import Any

import pytest

from core.errors import Invalid
from daemons.certificates import enrolment
from daemons.certificates.peers import Role
from netmaster.commands import agent_requests, ca
from netmaster.commands.ca import CertificateRequest
from tests.unit.certificates import NOW

SYSTEM = "contiv-system"
REQUEST: dict[str, Any] = {
    "spec": {
        "username": "system:serviceaccount:contiv-system:contiv-netplugin",
        "extra": {enrolment.POD_NAME: ["agent-x"], enrolment.POD_UID: ["u1"]},
    }
}
POD: dict[str, Any] = {
    "metadata": {"uid": "u1"},
    "spec": {"nodeName": "n1"},
    "status": {"hostIP": "192.0.2.1"},
}


def test_the_node_of_the_pod_is_named() -> None:
    assert agent_requests.pod_of(REQUEST, SYSTEM) == "agent-x"
    assert agent_requests.grant(REQUEST, POD, 365) == CertificateRequest(
        role=Role.AGENT, name="n1", addresses=["192.0.2.1"]
    )


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"username": "system:serviceaccount:blue:contiv-netplugin"},
        {"username": "system:admin"},
        {**REQUEST["spec"], "extra": None},
        {**REQUEST["spec"], "extra": {enrolment.POD_NAME: []}},
        {**REQUEST["spec"], "extra": {enrolment.POD_NAME: ["agent-x", "agent-y"]}},
    ],
)
def test_who_is_no_agents_pod_gets_none(spec: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        agent_requests.pod_of({"spec": spec}, SYSTEM)


@pytest.mark.parametrize(
    "pod",
    [
        None,
        {**POD, "metadata": {"uid": "u2"}},
        {**POD, "spec": {}},
        {**POD, "status": {}},
    ],
)
def test_a_pod_that_is_not_there_gets_none(pod: dict[str, Any] | None) -> None:
    with pytest.raises(Invalid):
        agent_requests.grant(REQUEST, pod, 365)


def test_a_node_whose_name_is_too_long_for_a_certificate_is_told() -> None:
    granted = agent_requests.grant(REQUEST, {**POD, "spec": {"nodeName": "n" * 65}}, 365)
    with pytest.raises(Invalid, match="at most 64"):
        ca.issue(ca.new_authority(NOW), granted, NOW)
