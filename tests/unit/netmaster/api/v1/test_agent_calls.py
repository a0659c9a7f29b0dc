"""The agents' routes: what is asked, and how the answer is written."""

import json

import pytest

from core.errors import Invalid
from netmaster.api.v1.agent_calls import (
    CallContext,
    ReadCall,
    allocate_address,
    create_endpoint,
    delete_endpoint,
    is_json,
    release_address,
    update_endpoint,
)
from netmaster.view import View
from tests.unit.netmaster.scene import NOW, Scene

CONFIG = b'{"TenantName":"default","NetworkName":"n1","ConfigEP":{"Container":"c<1>","Host":"h"}}'

ALL = (create_endpoint, update_endpoint, delete_endpoint, allocate_address, release_address)
HERE = CallContext(NOW, "kubernetes")


@pytest.fixture
def scene() -> Scene:
    """Hold a network."""
    scene = Scene()
    scene.network("n1")
    return scene


def ask(scene: Scene, read_call: ReadCall, body: bytes) -> bytes:
    call = read_call(body, HERE)
    return call.answer(scene.do(call.decide))


def test_an_endpoint_is_answered_as_its_record(scene: Scene) -> None:
    answer = ask(scene, create_endpoint, CONFIG)
    assert answer.startswith(b'{"EndpointConfig":{"id":"n1.default-c\\u003c1\\u003e",')
    endpoint = json.loads(answer)["EndpointConfig"]
    assert list(endpoint) == [
        "id",
        "netID",
        "endpointID",
        "serviceName",
        "endpointGroupId",
        "endpointGroupKey",
        "ipAddress",
        "ipv6Address",
        "macAddress",
        "homingHost",
        "intfName",
        "vtepIP",
        "labels",
        "containerId",
        "epCommonName",
    ]
    assert endpoint["labels"] is None
    gone = b'{"TenantName":"default","NetworkName":"n1","EndpointID":"c<1>"}'
    assert ask(scene, delete_endpoint, gone) == answer


def test_an_address_is_answered_with_the_network_as_asked(scene: Scene) -> None:
    answer = ask(scene, allocate_address, b'{"networkid":"n1.default"}')
    given = json.loads(answer)
    assert list(given) == ["NetworkID", "IPv4Address"]
    assert given["NetworkID"] == "n1.default"
    address = given["IPv4Address"].partition("/")[0]
    body = json.dumps({"NetworkID": "n1.default", "IPv4Address": address}).encode()
    assert ask(scene, release_address, body) == b'"success"'


@pytest.mark.parametrize("read_call", ALL)
def test_a_body_that_cannot_be_read_is_refused(read_call: ReadCall) -> None:
    with pytest.raises(Invalid, match=r"^EOF$"):
        read_call(b"", HERE)


def test_nothing_is_decided_before_it_is_asked_of_a_view() -> None:
    call = create_endpoint(CONFIG, HERE)
    with pytest.raises(Exception, match="key not found"):
        call.decide(View())


@pytest.mark.parametrize(
    ("content_type", "ok"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON", True),
        ("application/json5", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_json_content_types(content_type: str, *, ok: bool) -> None:
    assert is_json(content_type) is ok
