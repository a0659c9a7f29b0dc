"""The control channel's records and tables."""

from typing import Any

import pytest

from core.errors import Invalid
from ofnet.rpc.control import (
    ADD_MASTER,
    DUMMY,
    INSPECT,
    REGISTER_NODE,
    REPORT,
    UNREGISTER_NODE,
    Node,
    OfnetAgent,
    OfnetMaster,
    Report,
)

VLAN, VXLAN = Node("10.77.0.1", 9003), Node("10.77.0.1", 9002)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "10.77.0.1",
        {},
        {"HostAddr": "10.77.0.1"},
        {"HostAddr": "", "HostPort": 9002},
        {"HostAddr": "10.77.0.1", "HostPort": 0},
        {"HostAddr": "10.77.0.1", "HostPort": "9002"},
    ],
)
def test_what_is_no_node_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="not a node"):
        Node.from_json(value)


def test_records_survive_their_wire_form() -> None:
    report = Report(node=VXLAN, host="h1", revisions={"/a/": 7}, errors=("flow refused",))
    assert Node.from_json(VXLAN.to_json()) == VXLAN
    assert Report.from_json(report.to_json()) == report
    assert Report.from_json(report.to_json() | {"Later": [1]}) == report


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"Host": "h1", "Errors": []},
        {"Host": "h1", "Revisions": [7], "Errors": []},
        {"Host": "h1", "Revisions": {"/a/": "7"}, "Errors": []},
        {"Host": "h1", "Revisions": {"/a/": True}, "Errors": []},
        {"Host": None, "Revisions": {}, "Errors": []},
        {"Host": "h1", "Revisions": {}, "Errors": None},
    ],
)
def test_what_is_no_report_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="not a report"):
        Report.from_json(VXLAN.to_json() | fields)


async def test_a_master_has_the_registered_agents_and_their_progress() -> None:
    master = OfnetMaster()
    methods = master.methods()
    for node in (VLAN, VXLAN):
        assert await methods[REGISTER_NODE](node.to_json())
    assert master.nodes == {VLAN: Report(node=VLAN), VXLAN: Report(node=VXLAN)}
    report = Report(node=VXLAN, host="h1", revisions={"/a/": 12}, errors=("table full",))
    await methods[REPORT](report.to_json())
    await methods[UNREGISTER_NODE](VLAN.to_json())
    await methods[UNREGISTER_NODE](VLAN.to_json())
    assert master.inspect(Node("10.77.0.1", 9001)) == {
        "MyAddr": "10.77.0.1",
        "MyPort": 9001,
        "AgentDb": {"10.77.0.1:9002": {"HostAddr": "10.77.0.1", "HostPort": 9002}},
        "EndpointDb": {},
        "PolicyDb": {},
        "AgentStats": {
            "10.77.0.1:9002": {"Host": "h1", "Revisions": {"/a/": 12}, "Errors": ["table full"]}
        },
    }


async def test_a_new_registration_clears_the_report() -> None:
    master = OfnetMaster()
    methods = master.methods()
    await methods[REGISTER_NODE](VXLAN.to_json())
    await methods[REPORT](Report(node=VXLAN, host="h1", revisions={"/a/": 12}).to_json())
    # its host was started anew, and its switch is empty
    await methods[REGISTER_NODE](VXLAN.to_json())
    assert master.nodes == {VXLAN: Report(node=VXLAN)}


async def test_an_agent_takes_masters_and_answers_inspection() -> None:
    masters: list[Node] = []

    async def add(master: Node) -> None:
        masters.append(master)

    methods = OfnetAgent(add_master=add, inspect=lambda: {"vxlan": {}}).methods()
    assert await methods[ADD_MASTER](Node("10.77.0.9", 9001).to_json())
    assert masters == [Node("10.77.0.9", 9001)]
    assert await methods[DUMMY]("dummy")
    assert await methods[INSPECT]("") == {"vxlan": {}}
