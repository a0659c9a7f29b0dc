"""Reading and writing as Go's encoding/json does."""

import json
from typing import Any

import pytest

from contivmodel.client import AddressBlocksReply, HeldAheadReply
from contivmodel.objects import EndpointGroup, Link, Network, Rule, Tenant, TenantLinkSets
from contivmodel.rpc import AllocAddressRequest, CreateEndpointRequest
from contivmodel.service_objects import Bgp
from contivmodel.wire import WireModel, decode, dump, dumps
from core.errors import Invalid


def test_a_body_becomes_a_model() -> None:
    network = decode(Network, b'{"tenantName":"blue","networkName":"n1","pktTag":7}')
    assert (network.tenant_name, network.network_name, network.pkt_tag) == ("blue", "n1", 7)


def test_a_bgp_peering_is_written_as_the_original_s_unless_it_has_ipv6() -> None:
    body = b'{"hostname":"h1","routerip":"50.1.1.1/24","neighbor":"50.1.1.2","as":"1"%s}'
    plain = dump(decode(Bgp, body % b""))
    assert list(plain) == ["as", "hostname", "neighbor", "routerip"]
    assert dump(decode(Bgp, body % b',"routerIpv6":"","neighborIpv6":""')) == plain
    six = decode(Bgp, body % b',"routerIpv6":"fd50::1/64","neighborIpv6":"fd50::2"')
    assert dump(six) == {**plain, "routerIpv6": "fd50::1/64", "neighborIpv6": "fd50::2"}


def test_a_rule_is_written_as_the_original_s_unless_it_logs() -> None:
    body = b'{"ruleId":"1","log":%s}'
    assert "log" not in dump(decode(Rule, body % b"false"))
    logged = decode(Rule, body % b"true")
    assert (logged.log, dump(logged)["log"]) == (True, True)
    with pytest.raises(Invalid, match=r"number into Go struct field Rule\.log of type bool"):
        decode(Rule, body % b"1")


def test_names_match_without_regard_to_case_and_unknown_ones_are_ignored() -> None:
    request = decode(CreateEndpointRequest, b'{"configep":{"CONTAINER":"c"},"Extra":{"a":[1]}}')
    assert request.config.container == "c"


def test_null_stands_for_the_zero_value() -> None:
    assert decode(Network, b"null") == Network()
    network = decode(Network, b'{"pktTag":null,"subnet":null,"link-sets":null}')
    assert network == Network()
    assert decode(EndpointGroup, b'{"policies":[null,"p"]}').policies == ["", "p"]


def test_what_is_not_utf8_becomes_the_replacement_character() -> None:
    assert decode(Tenant, b'{"tenantName":"a\xff"}').tenant_name == "a\ufffd"
    assert decode(Tenant, rb'{"tenantName":"\ud800"}').tenant_name == "\ufffd"
    links = decode(Tenant, rb'{"link-sets":{"Networks":{"\udfff":{"key":"k"}}}}').link_sets
    assert dumps(links) == '{"Networks":{"\ufffd":{"key":"k"}}}'.encode()


@pytest.mark.parametrize(
    ("model", "body", "text"),
    [
        (Tenant, "[]", "array into Go value of type contivModel.Tenant"),
        (Tenant, '"x"', "string into Go value of type contivModel.Tenant"),
        (Tenant, "12", "number into Go value of type contivModel.Tenant"),
        (Tenant, "true", "bool into Go value of type contivModel.Tenant"),
        (
            Tenant,
            '{"TENANTNAME":1}',
            "number into Go struct field Tenant.tenantName of type string",
        ),
        (
            Tenant,
            '{"tenantName":true}',
            "bool into Go struct field Tenant.tenantName of type string",
        ),
        (
            Tenant,
            '{"link-sets":[]}',
            "array into Go struct field Tenant.link-sets of type contivModel.TenantLinkSets",
        ),
        (
            Tenant,
            '{"link-sets":{"Networks":1}}',
            (
                "number into Go struct field TenantLinkSets.link-sets.Networks"
                " of type map[string]modeldb.Link"
            ),
        ),
        (Network, '{"pktTag":"7"}', "string into Go struct field Network.pktTag of type int"),
        (Network, '{"pktTag":1.5}', "number 1.5 into Go struct field Network.pktTag of type int"),
        (Network, '{"pktTag":1e3}', "number 1e3 into Go struct field Network.pktTag of type int"),
        (
            Network,
            '{"pktTag":9223372036854775808}',
            "number 9223372036854775808 into Go struct field Network.pktTag of type int",
        ),
        (
            EndpointGroup,
            '{"policies":"p"}',
            "string into Go struct field EndpointGroup.policies of type []string",
        ),
        (
            EndpointGroup,
            '{"policies":[{}]}',
            "object into Go struct field EndpointGroup.policies of type string",
        ),
        (AllocAddressRequest, "[]", "array into Go value of type master.AddressAllocRequest"),
        (
            AllocAddressRequest,
            '{"NetworkID":5}',
            "number into Go struct field AddressAllocRequest.NetworkID of type string",
        ),
    ],
)
def test_a_wrong_type_is_refused_in_go_words(model: type[WireModel], body: str, text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        decode(model, body.encode())
    assert str(refusal.value) == f"json: cannot unmarshal {text}"


def test_the_whole_range_of_int64_is_read() -> None:
    assert decode(Network, b'{"pktTag":-9223372036854775808}').pkt_tag == -(1 << 63)


def test_empty_values_are_left_out_and_nested_ones_are_not() -> None:
    assert dumps(Tenant(key="t", tenant_name="t")) == (
        b'{"key":"t","tenantName":"t","link-sets":{}}'
    )
    assert dump(EndpointGroup(group_name="g"))["links"] == {
        "AppProfile": {},
        "NetProfile": {},
        "Network": {},
        "Tenant": {},
    }


def test_empty_values_are_left_out_in_lists_too() -> None:
    held = HeldAheadReply(network_id="n.t", ipv4_address="10.1.0.7")
    reply = AddressBlocksReply(granted=[held, held])
    granted = {"NetworkID": "n.t", "IPv4Address": "10.1.0.7"}
    assert dump(reply) == {"Granted": [granted, granted]}
    assert json.loads(dumps(reply)) == dump(reply)


def test_link_sets_are_written_in_key_order() -> None:
    links = {key: Link(type="network", key=key) for key in ("t:b", "t:a")}
    assert list(json.loads(dumps(TenantLinkSets(networks=links)))["Networks"]) == ["t:a", "t:b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<a&b>", '"\\u003ca\\u0026b\\u003e"'),
        ("\u2028\u2029ü", '"\\u2028\\u2029ü"'),
        ([Link(type="t")], '[{"type":"t"}]'),
        ({"a": 1, "b": []}, '{"a":1,"b":[]}'),
    ],
)
def test_json_is_escaped_as_go_does(value: Any, text: str) -> None:
    assert dumps(value) == text.encode()


def test_what_is_written_is_read_back() -> None:
    network = Network(
        key="t:n", network_name="n", tenant_name="t", pkt_tag=5, cfgd_tag="<x>", encap="vxlan"
    )
    assert decode(Network, dumps(network)) == network
