"""Operational state as bytes: what Go writes of it, and endpoints encoded once."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from bench.records import endpoint
from contivmodel.objects import Tenant
from contivmodel.wire import dumps
from core.ids import HostLabel, NetworkId
from netmaster.api.leader.state_text import EndpointTexts, inspection
from netmaster.plan.show.inspect import EndpointStates
from state.records import EndpointRecord

NET = NetworkId("n.t")


def pod(number: int, **more: object) -> EndpointRecord:
    made = endpoint(
        NET, f"c{number}", address=IPv4Address("10.1.0.1"), on=HostLabel("h"), name="<p&é>\u2028"
    )
    return replace(made, **more)  # type: ignore[arg-type] # by name


def written(oper: Mapping[str, Any], texts: EndpointTexts | None = None) -> bytes:
    return inspection({"Oper": oper}, texts or EndpointTexts())


def without_empty(oper: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [without_empty(one) for one in value] if is_of_objects(value) else value
        for name, value in oper.items()
        if value
    }


def is_of_objects(value: Any) -> bool:
    many = isinstance(value, list | EndpointStates)
    return many and isinstance(value[0], Mapping)


def test_empty_values_are_left_out_and_objects_in_lists_too() -> None:
    oper = {"a": 0, "b": "", "c": [], "d": [{"e": "", "f": ["", "<"]}, {}], "g": 1, "h": {"i": ""}}
    assert written(oper) == b'{"Oper":{"d":[{"f":["","\\u003c"]},{}],"g":1,"h":{"i":""}}}'


def test_an_object_comes_before_its_state_and_an_empty_state_is_there() -> None:
    shown = {"Config": Tenant(key="t"), "Oper": {"a": 0}}
    assert inspection(shown, EndpointTexts()) == (
        b'{"Config":' + dumps(Tenant(key="t")) + b',"Oper":{}}'
    )
    assert inspection({"Config": Tenant(key="t")}, EndpointTexts()) == (
        b'{"Config":' + dumps(Tenant(key="t")) + b"}"
    )


def test_endpoints_are_written_as_the_encoder_writes_them() -> None:
    pods = [pod(1), pod(2, labels={"a": "<b>"}, group_id=3, ipv6_address="fd00::1"), pod(3)]
    oper = {"networks": [{"endpoints": EndpointStates(pods), "x": ""}], "n": 3}
    assert written(oper) == dumps({"Oper": without_empty(oper)})


def test_an_endpoint_is_written_anew_when_its_record_is_another() -> None:
    texts, first = EndpointTexts(), pod(1)
    before = written({"endpoints": EndpointStates([first])}, texts)
    assert written({"endpoints": EndpointStates([first])}, texts) == before
    moved = written(
        {"endpoints": EndpointStates([replace(first, homing_host=HostLabel("i"))])}, texts
    )
    assert moved == before.replace(b'"homingHost":"h"', b'"homingHost":"i"') != before


def test_few_texts_are_kept() -> None:
    texts, pods = EndpointTexts(limit=2), [pod(number) for number in range(4)]
    assert len(list(texts.of(pods))) == 4
    kept = next(iter(texts.of(pods[:1])))
    assert next(iter(texts.of(pods[:1]))) is kept
    assert len(list(texts.of(pods))) == len(list(texts.of(pods))) == 4
    assert next(iter(texts.of(pods[:1]))) is not kept
