"""The client of the ACI gateway against a stand-in on loopback."""

from collections.abc import Iterator

import pytest

from netmaster.external.aci import GatewayClient, GatewayFailed
from tests.bed.aci_gateway import REFUSING, Saying, StandIn
from tests.bed.netns import free_port

BODY = '{"tenant":"t","app-prof":"a"}'


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn() as gateway:
        yield gateway


async def test_what_is_sent(stand_in: StandIn) -> None:
    gateway = GatewayClient(stand_in.url + "/")
    await gateway.create(BODY)
    await gateway.delete(BODY)
    asked = {"tenant": "t", "app-prof": "a"}
    assert stand_in.calls == [("/createAppProf", asked), ("/deleteAppProf", asked)]


@pytest.mark.parametrize(
    ("saying", "text"),
    [
        (REFUSING, "Validation failed. Error: failed - no such domain"),
        (Saying(status=404), "page not found"),
        (Saying(status=403), "access denied"),
        (Saying(status=500), "500 Internal Server Error"),
        (Saying(body=b"hello"), "ACI gateway: not JSON: b'hello'"),
        (Saying(body=b"[]"), "ACI gateway: not an answer: b'[]'"),
    ],
)
async def test_answers_that_are_no_success(stand_in: StandIn, saying: Saying, text: str) -> None:
    stand_in.answer = saying
    with pytest.raises(GatewayFailed) as refusal:
        await GatewayClient(stand_in.url).create(BODY)
    assert str(refusal.value) == text


async def test_a_profile_it_cannot_delete_is_not_kept_for_that(stand_in: StandIn) -> None:
    stand_in.answer = REFUSING
    await GatewayClient(stand_in.url).delete(BODY)


async def test_a_gateway_that_says_nothing_is_not_waited_for(stand_in: StandIn) -> None:
    stand_in.gate.clear()
    with pytest.raises(GatewayFailed, match="does not answer in time"):
        await GatewayClient(stand_in.url, timeout=0.2).create(BODY)


async def test_a_gateway_that_is_not_there() -> None:
    url = f"http://127.0.0.1:{free_port(None)}"
    with pytest.raises(GatewayFailed, match=f"ACI gateway {url}"):
        await GatewayClient(url).create(BODY)
