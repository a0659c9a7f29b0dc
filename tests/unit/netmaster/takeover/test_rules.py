"""The rules of a translation that no recorded store needs: older releases, and rarer defects."""

import json
from typing import Any

import pytest

from core import keys
from core.collections.bitset import span
from core.errors import Conflict
from core.ids import EndpointKey, GroupKey, NetworkId
from netmaster.takeover.findings import TakeoverOutcome, summary
from netmaster.takeover.translation import Translation, translate
from netmaster.view import View
from state import schema
from tests.golden.stores import recorded

NET = keys.NETWORKS + "n1.default"
GROUP = keys.GROUPS + "g1:default"


def fields(value: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(value)
    return parsed


def base() -> dict[str, bytes]:
    """Return a store with some networks and groups."""
    return recorded("plugin-alloc")


def changed(values: dict[str, bytes], key: str, **more: Any) -> dict[str, bytes]:
    """Change fields of a value."""
    values[key] = json.dumps(fields(values[key]) | more).encode()
    return values


def endpoint(name: str, address: str, **more: Any) -> dict[str, Any]:
    """Return an endpoint of network n1 as the original stores it."""
    return {
        "id": f"n1.default-{name}",
        "netID": "n1.default",
        "endpointID": name,
        "ipAddress": address,
        "homingHost": "h1",
        "endpointGroupId": 0,
        **more,
    }


def with_endpoint(values: dict[str, bytes], name: str, address: str, **more: Any) -> str:
    """Add an endpoint; return its key."""
    key = f"{keys.ENDPOINTS}n1.default-{name}"
    values[key] = json.dumps(endpoint(name, address, **more)).encode()
    return key


def said(translation: Translation, key: str) -> list[tuple[TakeoverOutcome, str]]:
    """Return what is reported of a key."""
    return [(one.outcome, one.text) for one in translation.findings if one.key == key]


def test_a_store_of_this_project_is_refused() -> None:
    values = {keys.SCHEMA: schema.encode(schema.CURRENT)}
    with pytest.raises(Conflict, match="use dump and load"):
        translate(values)


def test_keys_of_the_first_generation_get_the_fields_that_it_lacked() -> None:
    values = base()
    network, settings = fields(values[NET]), fields(values[keys.GLOBAL_CONFIG])
    for name in ("nwType", "networkTag"):
        del network[name]
    for name in ("arp-mode", "pvt-subnet"):
        del settings[name]
    group = fields(values[GROUP])
    for name in ("groupTag", "IPPool", "epgIpAllocMap"):
        del group[name]
    values[NET], values[GROUP] = json.dumps(network).encode(), json.dumps(group).encode()
    values[keys.GLOBAL_CONFIG] = json.dumps(settings).encode()
    view = View.load(translate(values).values)
    assert view.networks[NetworkId("n1.default")].network_tag == "n1.default"
    assert view.groups[GroupKey("g1:default")].group_tag == "g1.default"
    assert view.global_record is not None
    assert (view.global_record.arp_mode, view.global_record.pvt_subnet) == (
        "proxy",
        "172.19.0.0/16",
    )


def test_groups_with_one_id_get_ids_of_their_own_and_their_endpoints_with_them() -> None:
    values = changed(base(), keys.GROUPS + "gp:default", endpointGroupId=1)
    changed(values, GROUP, endpointGroupId=1)
    key = with_endpoint(
        values, "c9", "10.1.1.101", endpointGroupId=1, endpointGroupKey="gp:default"
    )
    translation = translate(values)
    view = View.load(translation.values)
    ids = {str(name): one.group_id for name, one in view.groups.items()}
    assert ids == {"g1:default": 1, "gp:default": 2}
    assert view.endpoints[EndpointKey("n1.default-c9")].group_id == 2
    (group,) = said(translation, keys.GROUPS + "gp:default")
    assert group == (TakeoverOutcome.CHANGED, "its id 1 becomes 2: group g1:default has it too")
    assert [outcome for outcome, _ in said(translation, key)][:1] == [TakeoverOutcome.CHANGED]
    assert view.group_ids.following() == 3


def test_an_id_that_does_not_fit_into_flows_is_replaced() -> None:
    translation = translate(changed(base(), GROUP, endpointGroupId=40000))
    group = View.load(translation.values).groups[GroupKey("g1:default")]
    assert group.group_id <= 32767
    assert said(translation, GROUP)[0][0] is TakeoverOutcome.CHANGED


def test_two_networks_with_one_vni_are_refused() -> None:
    other = keys.NETWORKS + "nogw.default"
    values = base()
    values = changed(values, other, extPktTag=fields(values[NET])["extPktTag"])
    translation = translate(values)
    assert [str(one.outcome) for one in translation.refusals] == ["refused"]
    assert "VNI" in translation.refusals[0].text


def test_an_endpoint_on_a_network_that_is_gone_is_left_out() -> None:
    values = base()
    key = with_endpoint(values, "c9", "10.1.1.9", netID="gone.default")
    assert said(translate(values), key) == [(TakeoverOutcome.LEFT_OUT, "its network is gone")]


def test_an_endpoint_of_a_group_that_is_gone_has_none() -> None:
    values = base()
    with_endpoint(values, "c9", "10.1.1.9", endpointGroupId=7, endpointGroupKey="gone:default")
    one = View.load(translate(values).values).endpoints[EndpointKey("n1.default-c9")]
    assert (one.group_key, one.group_id) == ("", 0)


def test_an_endpoint_is_where_the_agent_has_its_port() -> None:
    values = base()
    values[keys.ROOT + "oper/ovs-driver/label1"] = json.dumps(
        {"LocalEpInfo": {"n1.default-c9": {"Ovsportname": "vvport1"}}}
    ).encode()
    key = with_endpoint(values, "c9", "10.1.1.9", homingHost="os-name")
    translation = translate(values)
    one = View.load(translation.values).endpoints[EndpointKey("n1.default-c9")]
    assert one.homing_host == "label1"
    assert said(translation, key)[0][0] is TakeoverOutcome.CHANGED


def test_a_key_and_an_id_that_differ_are_refused() -> None:
    values = base()
    key = with_endpoint(values, "c9", "10.1.1.9", id="n1.default-other")
    assert said(translate(values), key)[0][0] is TakeoverOutcome.REFUSED
    assert translate(values, {key}).refusals == ()


@pytest.mark.parametrize("value", [b"", b"[]", b"{"])
def test_a_value_that_is_no_object_is_refused(value: bytes) -> None:
    translation = translate(base() | {NET: value})
    assert said(translation, NET)[0] == (TakeoverOutcome.REFUSED, "its value is not a JSON object")


def test_a_malformed_bitmap_is_refused() -> None:
    translation = translate(changed(base(), NET, ipAllocMap="AAAA"))
    assert said(translation, NET)[0][0] is TakeoverOutcome.REFUSED


def test_an_address_outside_its_network_is_refused() -> None:
    values = base()
    key = with_endpoint(values, "c9", "10.9.9.9")
    assert said(translate(values), key)[0][0] is TakeoverOutcome.REFUSED


def test_an_unknown_key_is_left_out_and_said() -> None:
    key = keys.ROOT + "volplugin/x"
    assert said(translate(base() | {key: b"{}"}), key)[0][0] is TakeoverOutcome.LEFT_OUT


def test_what_nothing_is_made_of_is_counted_by_its_reason() -> None:
    lines = list(summary(translate(recorded("agent-routing-end")).skipped))
    assert any("leases of the original's daemons" in line for line in lines)
    assert any("derived from other records" in line for line in lines)


def test_two_hosts_with_one_label_are_refused() -> None:
    values = recorded("agent-routing-end")
    twin = keys.service(keys.SERVICE_VTEP, "10.77.0.9", 4789)
    first = fields(values[keys.service(keys.SERVICE_VTEP, "10.77.0.3", 4789)])
    values[twin] = json.dumps(first | {"HostAddr": "10.77.0.9"}).encode()
    assert said(translate(values), twin)[0][0] is TakeoverOutcome.REFUSED


def test_who_led_the_original_is_told() -> None:
    assert translate(base()).leader == "10.77.0.1:9999"


def test_tenants_that_objects_belong_to_are_made() -> None:
    values = base()
    key = keys.obj("tenant", "default")
    del values[key]
    translation = translate(values)
    assert said(translation, key)[0][0] is TakeoverOutcome.CHANGED
    assert key in translation.values


def test_a_rule_without_its_policy_is_left_out() -> None:
    values = recorded("policies-rules")
    del values[keys.obj("policy", "default:p1")]
    translation = translate(values)
    assert said(translation, keys.obj("rule", "default:p1:9")) == [
        (TakeoverOutcome.LEFT_OUT, "its policy is gone")
    ]


def test_a_group_loses_what_does_not_exist_and_what_it_names_twice() -> None:
    values = recorded("tenants-full")
    key = keys.obj("endpointGroup", "green:g1")
    group = fields(values[key]) | {"policies": ["p1", "gone", "p1"], "netProfile": "gone"}
    values[key] = json.dumps(group).encode()
    translation = translate(values)
    kept = fields(translation.values[key])
    assert (kept["policies"], "netProfile" in kept) == (["p1"], False)
    assert said(translation, key)[0][0] is TakeoverOutcome.CHANGED


def test_an_application_profile_loses_groups_that_do_not_exist() -> None:
    values = recorded("tenants-full")
    key = keys.obj("appProfile", "green:ap1")
    changed(values, key, endpointGroups=["g1", "gone"])
    assert fields(translate(values).values[key])["endpointGroups"] == ["g1"]


def test_a_group_in_use_gets_its_object_back_and_an_unused_one_goes() -> None:
    values = base()
    for name in ("g1", "gp"):
        del values[keys.obj("endpointGroup", f"default:{name}")]
    with_endpoint(values, "c9", "10.1.1.9", endpointGroupKey="g1:default", endpointGroupId=1)
    translation = translate(values)
    assert keys.obj("endpointGroup", "default:g1") in translation.values
    assert said(translation, keys.GROUPS + "gp:default")[0][0] is TakeoverOutcome.LEFT_OUT


def test_a_services_object_follows_its_record() -> None:
    values = recorded("servicelb-one-service")
    key = keys.obj("serviceLB", "default:s1")
    before = fields(values[key])
    changed(values, key, ports=["9:9:TCP"], selectors=["other=1"])
    assert fields(translate(values).values[key])["ports"] == before["ports"]
    del values[key]
    assert fields(translate(values).values[key])["selectors"] == before["selectors"]


def test_malformed_ports_are_refused() -> None:
    values = recorded("servicelb-one-service")
    key = keys.SERVICE_LBS + "s1:default"
    changed(values, key, ports=["80:8080:TCP", "80"])
    assert said(translate(values), key)[0][0] is TakeoverOutcome.REFUSED


def test_a_peering_follows_its_record_and_goes_without_one() -> None:
    values = recorded("agent-routing-end")
    values = {key: value for key, value in values.items() if "sixvlan" not in key}
    key = keys.obj("Bgp", "host1")
    changed(values, key, neighbor="50.1.1.9")
    assert fields(translate(values).values[key])["neighbor"] == "50.1.1.2"
    del values[keys.BGPS + "host1"]
    translation = translate(values)
    assert key not in translation.values
    assert said(translation, key)[0][0] is TakeoverOutcome.LEFT_OUT


def test_docker_networks_are_kept_while_theirs_is_there() -> None:
    values = base()
    for name in ("n1", "gone"):
        values[f"{keys.DOCKNETS}default.{name}."] = json.dumps(
            {
                "id": f"default.{name}.",
                "tenantName": "default",
                "networkName": name,
                "serviceName": "",
                "docknetUUID": "f00",
            }
        ).encode()
    translation = translate(values)
    assert keys.DOCKNETS + "default.n1." in translation.values
    assert said(translation, keys.DOCKNETS + "default.gone.")[0][0] is TakeoverOutcome.LEFT_OUT


def test_settings_follow_what_agents_use() -> None:
    values = changed(base(), keys.obj("global", "global"), fwdMode="bridge")
    translation = translate(values)
    kept = fields(translation.values[keys.obj("global", "global")])
    assert kept["fwdMode"] == fields(values[keys.GLOBAL_CONFIG])["fwd-mode"]
    assert said(translation, keys.obj("global", "global"))[0][0] is TakeoverOutcome.CHANGED


def test_an_address_of_a_pool_that_is_marked_belongs_to_the_pool() -> None:
    values = base()
    group = keys.GROUPS + "gp:default"
    pool = fields(values[group])
    size = 256
    marked = span(0, 99, size) | span(101, 101, size) | span(103, 255, size)
    values[group] = json.dumps(pool | {"epgIpAllocMap": marked.encode()}).encode()
    grants = translate(values).values
    grant = fields(grants[keys.GRANTS + "n1.default/10.1.1.101"])
    assert (grant["owner"], grant["ownerID"]) == ("reservation", "gp:default")
    assert keys.GRANTS + "n1.default/10.1.1.102" not in grants


def test_a_network_that_takes_a_hosts_address_is_refused() -> None:
    values = base()
    vtep = {"ServiceName": "netplugin.vtep", "HostAddr": "10.1.1.7", "Port": 4789, "Hostname": "h1"}
    values[keys.service(keys.SERVICE_VTEP, "10.1.1.7", 4789)] = json.dumps(vtep).encode()
    assert fields(values[NET])["subnetIP"] == "10.1.1.0"
    assert (
        TakeoverOutcome.REFUSED,
        "subnet 10.1.1.0/24 of network n1.default holds 10.1.1.7, the tunnel address of host h1",
    ) in said(translate(values), NET)
