"""Every recorded store of the original, translated: what a leader reads, and what is reported."""

import json
from typing import Any, Final

import pytest

from core import keys
from core.addresses import ipv4
from core.collections import bitset
from core.ids import HostLabel, NetworkId
from netmaster.plan.show import ipam_check
from netmaster.takeover.findings import TakeoverOutcome
from netmaster.takeover.translation import Translation, translate
from netmaster.view import View
from state.records import GrantOwner
from tests.golden.stores import names, recorded

RULES: Final = keys.OBJECTS + "rule/default:"
SERVICES: Final = keys.SERVICE_LBS
_BAD_RULES: Final = {("refused", RULES + "p1:21"), ("refused", RULES + "p1:30")}
"""The original accepts protocol 999 and port -1."""
_AGENTS: Final = {
    *(("changed", f"{RULES}{policy}:{rule}") for policy in ("pvlan", "pvxlan") for rule in (10, 6)),
    ("refused", keys.ENDPOINTS + "nvlan6.default-cid-sixvlan"),
}
"""Subnets written into rules that name networks; an endpoint with the IPv6 gateway's address."""
_ROUTED: Final = {
    ("note", keys.service(keys.SERVICE_VTEP, "10.77.0.1", 4789)),
    ("note", keys.service(keys.SERVICE_VTEP, "10.77.0.3", 4789)),
}
"""Vlan networks are routed by MAC addresses of uplinks that the original does not store."""
_ENDPOINTS: Final = {
    ("changed", keys.ENDPOINTS + "-native-intf"),
    ("changed", keys.ENDPOINTS + "h1-native-intf"),
    ("refused", keys.ENDPOINTS + "n1.default-i"),
    ("refused", keys.ENDPOINTS + "n1.default-m"),
}
"""Endpoints without a container; requested addresses that were the gateway's or in use."""
_SERVICES: Final = {
    ("left out", keys.OBJECTS + "serviceLB/default:s1"),
    ("refused", SERVICES + "s5:default"),
}
"""A service that an update lost; two services with one address."""
_NETWORKS: Final = {
    ("changed", keys.NETWORKS + "c4.default"),
    ("note", keys.NETWORKS + "s3.default"),
}
"""A tag of two networks; an IPv6 gateway outside its subnet."""
_RESERVED: Final = ("note", keys.NETWORKS + "n1.default")
"""Addresses that are reserved, or were never released."""

FOUND: Final[dict[str, set[tuple[str, str]]]] = {
    "agent-bridge-end": _AGENTS,
    "agent-routing-end": _AGENTS | _ROUTED,
    "globals-after-delete": {("note", keys.GLOBAL_CONFIG)},
    "mode-docker-vlan-bridge-end": {
        ("changed", keys.OBJECTS + "network/default:n1"),
        ("left out", keys.NETWORKS + "n2.default"),
        _RESERVED,
    },
    "mode-swarm-mode-vlan-bridge-end": {_RESERVED},
    "networks-end": _NETWORKS,
    "networks-failed-delete": _NETWORKS,
    "plugin-alloc": {_RESERVED},
    "plugin-end": _ENDPOINTS | {_RESERVED},
    "plugin-endpoints": _ENDPOINTS | {_RESERVED, ("refused", keys.ENDPOINTS + "n1.default-h")},
    "plugin-epcleanup": _ENDPOINTS | {_RESERVED},
    "plugin-exhausted": {_RESERVED},
    "plugin-release": {_RESERVED},
    "plugin-v6-after-delete": {_RESERVED},
    "policies-attached": _BAD_RULES,
    "policies-detached": _BAD_RULES,
    "policies-rule-deleted": _BAD_RULES,
    "policies-rules": _BAD_RULES,
    "servicelb-after-die": _SERVICES,
    "servicelb-bgp": _SERVICES,
    "servicelb-end": _SERVICES,
    "servicelb-providers": _SERVICES,
    "servicelb-svc-end": _SERVICES,
}
"""What is reported of each store, hosts without registrations aside; nothing of the others."""

FREED: Final = {110, 254}
"""Host numbers that the original freed while they were in use: a second holder was deleted, or the
gateway's address released (docs/original/recorded-defects.md)."""


def imported(name: str) -> Translation:
    """Translate a store without the keys that are refused."""
    first = translate(recorded(name))
    translation = translate(recorded(name), {one.key for one in first.refusals})
    assert not translation.refusals
    return translation


def of_hosts(key: str, text: str) -> bool:
    """Whether a finding is about a host that registered nothing: most recordings had no agent."""
    return key.startswith(keys.ENDPOINTS) and "has no agent" in text


@pytest.mark.parametrize("name", names())
def test_the_report_names_what_is_not_taken_over_as_it_is(name: str) -> None:
    translation = translate(recorded(name))
    found = {
        (str(one.outcome), one.key)
        for one in translation.findings
        if not of_hosts(one.key, one.text)
    }
    assert found == FOUND.get(name, set())
    for one in translation.refusals:
        assert f"--leave-out {one.key}" in one.remedy


@pytest.mark.parametrize("name", names())
def test_a_leader_reads_what_the_original_had(name: str) -> None:
    before, translation = recorded(name), imported(name)
    view = View.load(translation.values)
    gone = {one.key for one in translation.findings if one.outcome is TakeoverOutcome.LEFT_OUT}
    for key, value in before.items():
        if key.startswith((keys.NETWORKS, keys.GROUPS, keys.SERVICE_LBS)) and key not in gone:
            kept, fields = json.loads(translation.values[key]), json.loads(value)
            for field in ("pktTag", "extPktTag", "endpointGroupId", "subnetIP", "ipaddress"):
                assert kept.get(field) == fields.get(field), key
    assert {str(label) for label in view.host_endpoints} <= _homes(before)
    hosts = {HostLabel(keys.after(keys.HOSTS, key)) for key in translation.hosts}
    faults = [
        one for one in ipam_check.findings(view, 0.0) if one.network != "s3.default"
    ]  # its gateway is no address of it
    assert faults == []
    assert hosts <= {HostLabel("host1"), HostLabel("host12")}


@pytest.mark.parametrize("name", names())
def test_addresses_in_use_are_those_that_the_original_has_marked(name: str) -> None:
    before, translation = recorded(name), imported(name)
    gone = {one.key for one in translation.findings if one.outcome is TakeoverOutcome.LEFT_OUT}
    view = View.load(translation.values)
    for nid, network in view.networks.items():
        fields = json.loads(before[keys.network(nid)])
        base, grants = ipv4(network.subnet), view.addresses[nid].grants
        held = {ipv4(one) - base for one in grants if ":" not in one}
        marked = bitset.decode(fields["ipAllocMap"])
        pool = _pooled(view, nid, base)
        assert {one for one in held if one not in marked} <= FREED, nid
        unassigned = json.loads(translation.values[keys.network(nid)])["ipAllocMap"]
        never = bitset.decode(unassigned)
        others = {
            one
            for one in range(marked.length)
            if one in marked and one not in never and one not in held and one not in pool
        }
        assert others <= _left_out(before, gone, base), nid


def _homes(before: dict[str, bytes]) -> set[str]:
    found = [json.loads(v) for k, v in before.items() if k.startswith(keys.ENDPOINTS)]
    return {one["homingHost"] for one in found}


def _pooled(view: View, nid: NetworkId, base: int) -> set[int]:
    """Return the host numbers in pools of groups, which the original marks as a whole."""
    pools = [one.ip_pool.split("-") for one in view.groups.values() if one.ip_pool]
    if nid != "n1.default":
        return set()
    return {n - base for low, high in pools for n in range(ipv4(low), ipv4(high) + 1)}


def _left_out(before: dict[str, bytes], gone: set[str], base: int) -> set[int]:
    fields: list[dict[str, Any]] = [json.loads(before[key]) for key in gone if key in before]
    texts = [one.get("ipAddress") or one.get("ipaddress") or "" for one in fields]
    return {ipv4(text) - base for text in texts if text}


def test_the_owners_of_addresses() -> None:
    view = View.load(imported("plugin-v6-after-delete").values)
    grants = view.addresses[NetworkId("n1.default")].grants
    kinds = {address: grant.owner for address, grant in grants.items()}
    assert kinds["10.1.1.254"] is GrantOwner.GATEWAY
    assert GrantOwner.RESERVATION in kinds.values()


def test_uplinks_of_hosts_are_those_given() -> None:
    translation = translate(recorded("agent-routing-end"), (), {"host1": "02:00:00:00:00:01"})
    assert {one.key for one in translation.findings if "--uplink-mac" in one.text} == {
        keys.service(keys.SERVICE_VTEP, "10.77.0.3", 4789)
    }
    host = json.loads(translation.hosts[keys.HOSTS + "host1"])
    assert host["uplinkMACs"] == ["02:00:00:00:00:01"]


def test_hosts_with_an_agent_are_kept() -> None:
    hosts = imported("agent-routing-end").hosts
    host = json.loads(hosts[keys.HOSTS + "host12"])
    assert (host["controlIP"], host["vtepIP"], host["vxlanPort"]) == (
        "10.77.0.3",
        "10.77.0.3",
        4789,
    )
