"""The agents' routes: what is asked, and how the answer is written."""

import json

import pytest

from core.errors import Invalid
from netmaster.api.endpoints import CALLS, CallContext, is_json
from netmaster.api.routes import RouteAction
from netmaster.view import View
from tests.unit.netmaster.scene import NOW, Scene

CONFIG = b'{"TenantName":"default","NetworkName":"n1","ConfigEP":{"Container":"c<1>","Host":"h"}}'

HERE = CallContext(NOW, "kubernetes")


@pytest.fixture
def scene() -> Scene:
    """Hold a network."""
    scene = Scene()
    scene.network("n1")
    return scene


def ask(scene: Scene, action: RouteAction, body: bytes) -> bytes:
    call = CALLS[action](body, HERE)
    return call.answer(scene.do(call.decide))


def test_an_endpoint_is_answered_as_its_record(scene: Scene) -> None:
    answer = ask(scene, RouteAction.CREATE_ENDPOINT, CONFIG)
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
    assert ask(scene, RouteAction.DELETE_ENDPOINT, gone) == answer


def test_an_address_is_answered_with_the_network_as_asked(scene: Scene) -> None:
    answer = ask(scene, RouteAction.ALLOCATE_ADDRESS, b'{"networkid":"n1.default"}')
    given = json.loads(answer)
    assert list(given) == ["NetworkID", "IPv4Address"]
    assert given["NetworkID"] == "n1.default"
    address = given["IPv4Address"].partition("/")[0]
    body = json.dumps({"NetworkID": "n1.default", "IPv4Address": address}).encode()
    assert ask(scene, RouteAction.RELEASE_ADDRESS, body) == b'"success"'


@pytest.mark.parametrize("action", CALLS)
def test_a_body_that_cannot_be_read_is_refused(action: RouteAction) -> None:
    with pytest.raises(Invalid, match=r"^EOF$"):
        CALLS[action](b"", HERE)


def test_nothing_is_decided_before_it_is_asked_of_a_view() -> None:
    call = CALLS[RouteAction.CREATE_ENDPOINT](CONFIG, HERE)
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
