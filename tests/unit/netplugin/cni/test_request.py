"""From the body of a CNI call to a `PodRequest`."""

import itertools
import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ids import DEFAULT_NETWORK, DEFAULT_TENANT
from netplugin.cni.errors import BadCall
from netplugin.cni.interface_spec import InterfaceSpec, container_of
from netplugin.cni.request import (
    PodRequest,
    Verb,
    parse,
    parse_gc,
    parse_status,
)

CONFIG = {"cniVersion": "0.3.1", "name": "contiv-net", "type": "contivk8s"}
ARGS = [
    "IgnoreUnknown=1",
    "K8S_POD_NAMESPACE=prod",
    "K8S_POD_NAME=web-1",
    "K8S_POD_INFRA_CONTAINER_ID=abc123",
]


def body(config: Any = CONFIG, **members: Any) -> bytes:
    call: dict[str, Any] = {
        "CNI_NETNS": "/var/run/netns/pod1",
        "CNI_IFNAME": "eth0",
        "CNI_CONTAINERID": "abc123",
        "CNI_ARGS": ";".join(ARGS),
        "netconf": config if isinstance(config, str) else json.dumps(config),
    }
    return json.dumps({k: v for k, v in (call | members).items() if v is not None}).encode()


def add(raw: bytes) -> PodRequest:
    return parse(raw, Verb.ADD)


def refusal(raw: bytes, verb: Verb = Verb.ADD) -> BadCall:
    with pytest.raises(BadCall) as caught:
        parse(raw, verb)
    return caught.value


@pytest.mark.parametrize("order", list(itertools.permutations(ARGS)))
def test_arguments_come_in_any_order(order: tuple[str, ...]) -> None:
    request = add(body(CNI_ARGS=";".join(order), CNI_CONTAINERID=None))
    assert (request.spec.container_id, request.namespace, request.pod_name) == (
        "abc123",
        "prod",
        "web-1",
    )


def test_the_whole_request() -> None:
    spec = InterfaceSpec(
        container_id="abc123",
        endpoint="abc123",
        netns="/var/run/netns/pod1",
        ifname="eth0",
        tenant=DEFAULT_TENANT,
        network=DEFAULT_NETWORK,
        network_name="contiv-net",
        attachment_id="abc123",
    )
    request = add(body())
    assert request == PodRequest(spec=spec, pod_name="web-1", namespace="prod", cni_version="0.3.1")
    assert asdict(request.spec) == asdict(spec)


def test_the_original_plugin_s_fields_are_enough() -> None:
    raw = {
        "K8S_POD_NAME": "web-1",
        "K8S_POD_NAMESPACE": "default",
        "K8S_POD_INFRA_CONTAINER_ID": "abc123",
        "CNI_NETNS": "/proc/9558/ns/net",
        "CNI_IFNAME": "eth0",
    }
    request = add(json.dumps(raw).encode())
    assert (request.spec.container_id, request.pod_name, request.cni_version) == (
        "abc123",
        "web-1",
        "0.3.1",
    )


def test_without_a_sandbox_id_the_container_id_counts() -> None:
    request = add(body(CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAME=pod9", CNI_CONTAINERID="32f5"))
    assert (request.spec.container_id, request.pod_name, request.namespace) == ("32f5", "pod9", "")
    assert add(body(CNI_ARGS=None)).spec.container_id == "abc123"


def test_a_value_may_hold_an_equals_sign_and_pairs_may_end_in_a_semicolon() -> None:
    assert add(body(CNI_ARGS="K8S_POD_NAME=a=b=c;X=;")).pod_name == "a=b=c"


def test_placement_comes_from_the_configuration() -> None:
    ours = {"tenant": "blue", "network": "n1", "group": "web", "socket": "/x"}
    request = add(body(CONFIG | {"contiv": ours}))
    assert (request.spec.tenant, request.spec.network, request.spec.group) == ("blue", "n1", "web")
    request = add(body(CONFIG | {"contiv": {"network": "n2", "group": ""}}))
    assert (request.spec.tenant, request.spec.network, request.spec.group) == (
        "default",
        "n2",
        "",
    )


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_versions_we_speak(version: str) -> None:
    assert add(body(CONFIG | {"cniVersion": version})).cni_version == version


@pytest.mark.parametrize("version", ["0.1.0", "0.3.0", "1.2.0", "", 1, ["0.3.1"]])
def test_other_versions_are_code_1(version: object) -> None:
    assert refusal(body(CONFIG | {"cniVersion": version})).code == 1


@pytest.mark.parametrize(
    "raw",
    [
        *(b"{", b"[]", b'"x"', b"\xff\xfe", b"nonsense", b'{"CNI_NETNS": 1}', b"[" * 50_000),
        *(body("{"), body("[1]"), body("3")),
        *(b'{"CNI_NETNS": "\\ud800"}', body('{"name": "\\ud800"}'), body('{"name": "\ud800"}')),
        *(body('{"a": 1e999}'), body('{"a": NaN}'), body(f'{{"a": {"9" * 5000}}}')),
        body('{"a": ' + "[" * 5000 + "]" * 5000 + "}"),
    ],
)
def test_what_is_not_json_is_code_6(raw: bytes) -> None:
    assert refusal(raw).code == 6


@pytest.mark.parametrize(
    "members",
    [
        {"CNI_NETNS": None},
        {"CNI_NETNS": ""},
        {"CNI_NETNS": "relative/path"},
        {"CNI_NETNS": "/a\0b"},
        {"CNI_IFNAME": None},
        {"CNI_IFNAME": "a/b"},
        {"CNI_IFNAME": ".."},
        {"CNI_IFNAME": "a b"},
        {"CNI_IFNAME": "sixteen-letters-"},
        {"CNI_IFNAME": "ü" * 8},
        {"CNI_CONTAINERID": None, "CNI_ARGS": None},
        {"CNI_CONTAINERID": "../x", "CNI_ARGS": None},
        {"CNI_CONTAINERID": "a" * 257, "CNI_ARGS": None},
        {"CNI_ARGS": "garbage"},
    ],
)
def test_a_wrong_environment_is_code_4(members: dict[str, Any]) -> None:
    assert refusal(body(**members)).code == 4


@pytest.mark.parametrize("ours", ["x", [], {"tenant": 1}, {"network": ["n"]}, {"group": True}])
def test_a_wrong_contiv_object_is_code_7(ours: object) -> None:
    assert refusal(body(CONFIG | {"contiv": ours})).code == 7


def test_a_refusal_knows_the_version_to_answer_in() -> None:
    assert refusal(body(CONFIG | {"cniVersion": "0.4.0"}, CNI_IFNAME="")).version == "0.4.0"
    assert refusal(body("{")).version == "1.1.0"


def test_a_del_needs_no_namespace_and_no_good_arguments() -> None:
    request = parse(body(CNI_NETNS="", CNI_ARGS="garbage"), Verb.DEL)
    assert (request.spec.container_id, request.spec.netns) == ("abc123", "")
    assert refusal(body(CNI_NETNS="relative"), Verb.DEL).code == 4


def test_each_interface_has_an_endpoint_id() -> None:
    first, second = add(body()), add(body(CNI_IFNAME="net1"))
    assert (first.spec.endpoint, second.spec.endpoint) == ("abc123", "abc123@net1")
    assert container_of(first.spec.endpoint) == container_of(second.spec.endpoint) == "abc123"
    assert (first.spec.default_route, second.spec.default_route) == (True, False)


def test_the_configuration_gives_the_default_route() -> None:
    ours = {"contiv": {"defaultRoute": True}}
    assert add(body(CONFIG | ours, CNI_IFNAME="net1")).spec.default_route
    assert not add(body(CONFIG | {"contiv": {"defaultRoute": False}})).spec.default_route
    assert refusal(body(CONFIG | {"contiv": {"defaultRoute": "yes"}})).code == 7


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0"])
def test_a_check_has_the_result_of_the_add(version: str) -> None:
    config = CONFIG | {"cniVersion": version}
    previous: dict[str, Any] = {"interfaces": [], "ips": []}
    assert parse(body(config | {"prevResult": previous}), Verb.CHECK).previous == previous
    assert refusal(body(config), Verb.CHECK).code == 7
    assert refusal(body(config | {"prevResult": []}), Verb.CHECK).code == 7
    assert refusal(body(config | {"prevResult": previous}, CNI_NETNS=""), Verb.CHECK).code == 4


def test_versions_have_verbs() -> None:
    assert refusal(body(), Verb.CHECK).code == 1
    for version in ("0.3.1", "0.4.0", "1.0.0"):
        old = body(CONFIG | {"cniVersion": version})
        for read in (parse_gc, parse_status):
            with pytest.raises(BadCall) as caught:
                read(old)
            assert (caught.value.code, caught.value.version) == (1, version)
    assert parse_status(body(LATEST)) == "1.1.0"


LATEST = CONFIG | {"cniVersion": "1.1.0"}
VALID = "cni.dev/valid-attachments"


def test_a_gc_lists_what_to_keep() -> None:
    listed = [{"containerID": "c1", "ifname": "eth0"}, {"containerID": "c1", "ifname": "net1"}]
    request, version = parse_gc(
        json.dumps({"netconf": json.dumps(LATEST | {VALID: listed})}).encode()
    )
    assert version == "1.1.0"
    assert request.network_name == "contiv-net"
    assert request.keep == {("c1", "eth0"), ("c1", "net1")}


@pytest.mark.parametrize("listed", [{}, "c1", 0, ["c1"], [{"containerID": "c1"}], [{}], [None]])
def test_a_gc_without_a_list_releases_nothing(listed: object) -> None:
    with pytest.raises(BadCall, match=VALID) as caught:
        parse_gc(body(LATEST | {VALID: listed}))
    assert (caught.value.code, caught.value.version) == (7, "1.1.0")
    with pytest.raises(BadCall, match=VALID):
        parse_gc(body(LATEST))


C1 = {"containerID": "c1", "ifname": "eth0"}
C2 = {"containerID": "c2", "ifname": "eth0"}


@pytest.mark.parametrize(
    ("lists", "kept"),
    [
        ({VALID: None}, set()),
        ({"cni.dev/attachments": None}, set()),
        ({"cni.dev/attachments": [C1]}, {"c1"}),
        ({VALID: None, "cni.dev/attachments": [C1]}, {"c1"}),
        ({VALID: [C1], "cni.dev/attachments": [C2]}, {"c1", "c2"}),
    ],
)
def test_a_gc_by_either_key(lists: dict[str, Any], kept: set[str]) -> None:
    """Null is what Go makes of an empty list: ocicni sends it for a network without pods."""
    request, _ = parse_gc(body(LATEST | lists))
    assert request.keep == {(one, "eth0") for one in kept}


@pytest.mark.parametrize(
    ("arguments", "config", "asked"),
    [
        ("IP=10.1.1.5;MAC=02:AA:00:00:00:01", {}, ("10.1.1.5", None, "02:aa:00:00:00:01")),
        ("IgnoreUnknown=1;IP=10.1.1.5/16,2001:db8::5", {}, ("10.1.1.5", "2001:db8::5", "")),
        ("IP=;MAC=", {}, (None, None, "")),
        (
            "IP=10.1.1.5",
            {"runtimeConfig": {"ips": ["2001:db8::5"]}},
            ("10.1.1.5", "2001:db8::5", ""),
        ),
        (
            "IP=10.1.1.5;MAC=02:aa:00:00:00:01",
            {"runtimeConfig": {"ips": ["10.1.1.6"], "mac": "02:aa:00:00:00:02"}},
            ("10.1.1.6", None, "02:aa:00:00:00:02"),
        ),
    ],
)
def test_addresses_asked_for_by_arguments(
    arguments: str, config: dict[str, Any], asked: tuple[str | None, str | None, str]
) -> None:
    """This is how nerdctl, ocicni and Multus ask for them."""
    request = add(body(CONFIG | config, CNI_ARGS=f"{';'.join(ARGS)};{arguments}"))
    found = (request.ipv4, request.ipv6)
    assert (*(str(one) if one else None for one in found), request.spec.mac) == asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("IP=10.1.1", "IP of CNI_ARGS is not a list of addresses: '10.1.1'"),
        ("IP=10.1.1.5,10.1.1.6", "IP of CNI_ARGS asks for two IPv4 addresses"),
        ("IP=fe80::1%eth0", "IP of CNI_ARGS"),
        ("MAC=x", "MAC of CNI_ARGS is not a unicast MAC address"),
        ("GATEWAY=10.1.1.1", "GATEWAY of CNI_ARGS cannot be granted"),
    ],
)
def test_arguments_that_cannot_be_granted_are_refused(arguments: str, said: str) -> None:
    refused = refusal(body(CNI_ARGS=arguments))
    assert refused.code == 4
    assert said in str(refused)
    assert outcome(body(CNI_ARGS="GATEWAY=10.1.1.1;IgnoreUnknown=1")) == 0
    assert outcome(body(CNI_ARGS=arguments), Verb.DEL) == 0


def outcome(raw: bytes, verb: Verb = Verb.ADD) -> int:
    try:
        parse(raw, verb)
    except BadCall as exc:
        return exc.code
    return 0


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_refusal(raw: bytes) -> None:
    assert outcome(raw) in {0, 1, 4, 6, 7}
    assert outcome(raw, Verb.DEL) in {0, 1, 4, 6, 7}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(config=JSON, contiv=JSON)
def test_any_configuration_is_a_request_or_a_refusal(config: object, contiv: object) -> None:
    assert outcome(body(json.dumps(config))) in {0, 1, 6, 7}
    assert outcome(body(json.dumps(CONFIG | {"contiv": contiv}))) in {0, 6, 7}
