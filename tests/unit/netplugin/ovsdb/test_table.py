"""Rows of three tables, in any order, to ports."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from netplugin.ovsdb.table import InterfaceFacts, PortFacts, PortTable

Step = Callable[[PortTable[int]], None]
PORT, INTERFACE = 1, 11


def port(name: str = "vvport1", *, tag: int = 0, interface: int = INTERFACE) -> PortFacts[int]:
    return PortFacts(
        name=name, tag=tag, external_ids={"endpoint-id": name}, interfaces=(interface,)
    )


def interface(ofport: int | None = 5, *, rate: int = 0, burst: int = 0) -> InterfaceFacts:
    return InterfaceFacts(
        name="vvport1",
        type="",
        ofport=ofport,
        mac_in_use=None,
        options={},
        error=None,
        link_state="up",
        policing_rate=rate,
        policing_burst=burst,
    )


STEPS: tuple[Step, ...] = (
    lambda table: table.set_port(PORT, port()),
    lambda table: table.set_interface(INTERFACE, interface()),
    lambda table: table.set_members("br", frozenset({PORT})),
)


def whole() -> PortTable[int]:
    table: PortTable[int] = PortTable()
    for step in STEPS:
        step(table)
    return table


@pytest.mark.parametrize("order", list(itertools.permutations(STEPS)))
def test_rows_come_in_any_order(order: tuple[Step, ...]) -> None:
    table: PortTable[int] = PortTable()
    for step in order:
        assert table.rows() == {}
        step(table)
    row = table.rows()["vvport1"]
    assert (row.bridge, row.ofport, row.external_ids) == ("br", 5, {"endpoint-id": "vvport1"})
    assert table.bridge_of("vvport1") == "br"
    assert table.id_of("vvport1") == PORT


def test_a_change_of_the_interface_is_shown() -> None:
    table = whole()
    before = table.rows()
    table.set_interface(INTERFACE, interface(9))
    assert table.rows()["vvport1"].ofport == 9
    assert before["vvport1"].ofport == 5
    table.set_interface(INTERFACE, interface(9, rate=10485, burst=2000))
    row = table.rows()["vvport1"]
    assert (row.policing_rate, row.policing_burst) == (10485, 2000)


def test_a_bond_is_shown_with_its_cards() -> None:
    table = whole()
    facts = PortFacts(name="bond", tag=0, external_ids={}, interfaces=(12, 13), active_mac="m2")
    table.set_port(2, facts)
    table.set_members("br", frozenset({PORT, 2}))
    for number in (13, 12):
        table.set_interface(number, replace(interface(number), name=f"eth{number}"))
    assert table.rows()["vvport1"].members == ()
    table.set_interface(13, replace(interface(13), name="eth13", lacp_current=True))
    row = table.rows()["bond"]
    assert [(one.name, one.ofport, one.lacp_current) for one in row.members] == [
        ("eth12", 12, None),
        ("eth13", 13, True),
    ]
    assert row.active_mac == "m2"


def test_a_change_of_the_port_is_shown() -> None:
    table = whole()
    table.set_port(PORT, port(tag=4))
    assert table.rows()["vvport1"].tag == 4


def test_a_renamed_port_leaves_its_old_name() -> None:
    table = whole()
    table.rows()
    table.set_port(PORT, port("vvport2"))
    assert set(table.rows()) == {"vvport2"}
    assert table.id_of("vvport1") is None


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_deleted_port_is_gone_whichever_row_goes_first(first: int) -> None:
    table = whole()
    table.rows()
    ends: list[Step] = [
        lambda table: table.set_members("br", frozenset()),
        lambda table: table.set_port(PORT, None),
        lambda table: table.set_interface(INTERFACE, None),
    ]
    ends.insert(0, ends.pop(first))
    for end in ends:
        end(table)
        assert table.rows() == {}
    assert table.id_of("vvport1") is None
    assert table.bridge_of("vvport1") is None


def test_a_port_replaced_by_one_of_its_name_is_shown_once() -> None:
    table = whole()
    table.rows()
    table.set_port(2, port(interface=12))
    table.set_interface(12, interface(6))
    table.set_members("other", frozenset({2}))
    table.set_members("br", frozenset())
    table.set_port(PORT, None)
    table.set_interface(INTERFACE, None)
    assert {name: (row.bridge, row.ofport) for name, row in table.rows().items()} == {
        "vvport1": ("other", 6)
    }


def test_a_port_moved_to_another_bridge_is_there_in_either_order() -> None:
    for steps in itertools.permutations((("br", frozenset[int]()), ("other", frozenset({PORT})))):
        table = whole()
        table.rows()
        for bridge, members in steps:
            table.set_members(bridge, members)
        assert table.rows()["vvport1"].bridge == "other"
