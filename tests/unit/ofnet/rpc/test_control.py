"""The control channel's records and tables."""

from typing import Any

import pytest

from core.errors import Invalid
from ofnet.rpc.control import (
    ADD_MASTER,
    DUMMY,
    INSPECT,
    MAX_ERROR,
    MAX_ERRORS,
    MAX_MEMORY,
    MAX_NAME,
    MAX_NODES,
    MAX_REVISIONS,
    NODES_PER_ADDRESS,
    REGISTER_NODE,
    REPORT,
    SILENCE,
    UNREGISTER_NODE,
    AgentReport,
    Node,
    OfnetAgent,
    OfnetMaster,
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
        {"HostAddr": "x" * (MAX_NAME + 1), "HostPort": 9002},
    ],
)
def test_what_is_no_node_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="not a node"):
        Node.from_json(value)


def test_records_survive_their_wire_form() -> None:
    report = AgentReport(node=VXLAN, host="h1", revisions={"/a/": 7}, errors=("flow refused",))
    assert Node.from_json(VXLAN.to_json()) == VXLAN
    assert AgentReport.from_json(report.to_json()) == report
    assert AgentReport.from_json(report.to_json() | {"Later": [1]}) == report


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
        {"Host": "x" * (MAX_NAME + 1), "Revisions": {}, "Errors": []},
        {"Host": "h1", "Revisions": {"x" * (MAX_NAME + 1): 1}, "Errors": []},
        {"Host": "h1", "Revisions": {"/a/": 1 << 64}, "Errors": []},
        {
            "Host": "h1",
            "Revisions": {f"/{number}/": 1 for number in range(MAX_REVISIONS + 1)},
            "Errors": [],
        },
    ],
)
def test_what_is_no_report_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="not a report"):
        AgentReport.from_json(VXLAN.to_json() | fields)


async def test_a_master_has_the_registered_agents_and_their_progress() -> None:
    master = OfnetMaster()
    methods = master.methods()
    for node in (VLAN, VXLAN):
        assert await methods[REGISTER_NODE](node.to_json())
    assert master.nodes == {VLAN: AgentReport(node=VLAN), VXLAN: AgentReport(node=VXLAN)}
    report = AgentReport(node=VXLAN, host="h1", revisions={"/a/": 12}, errors=("table full",))
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


def test_a_report_keeps_so_many_errors_of_so_many_characters() -> None:
    sent = AgentReport(node=VXLAN, host="h1").to_json() | {"Errors": ["x" * 100_000] * 1000}
    kept = AgentReport.from_json(sent).errors
    assert kept == ("x" * MAX_ERROR,) * (MAX_ERRORS - 1) + (f"and {1001 - MAX_ERRORS} more",)


async def test_registrations_are_limited_in_number() -> None:
    master = OfnetMaster()
    register = master.methods()[REGISTER_NODE]
    for port in range(1, 2 * NODES_PER_ADDRESS):
        await register(Node("10.77.0.1", port).to_json())
    assert len(master.nodes) == NODES_PER_ADDRESS
    assert Node("10.77.0.1", 2 * NODES_PER_ADDRESS - 1) in master.nodes, "the newest is kept"
    for number in range(MAX_NODES + 10):
        await register(Node(f"host-{number}", 9002).to_json())
    assert len(master.nodes) == MAX_NODES
    assert Node(f"host-{MAX_NODES + 9}", 9002) in master.nodes


async def test_there_is_room_for_the_agents_of_10_000_hosts() -> None:
    master = OfnetMaster()
    report = master.methods()[REPORT]
    revisions = {f"/contiv.io/state/records-of-kind-{kind}/": 1 << 40 for kind in range(20)}
    errors = ("the tunnel to host-4711 has failed: no route to host",) * 4
    for host in range(10_000):
        for port in (9002, 9003):
            node = Node(f"10.77.{host // 250}.{host % 250}", port)
            await report(
                AgentReport(
                    node=node,
                    host=f"host-{host}",
                    revisions=revisions,
                    errors=errors,
                    history="term-7",
                ).to_json()
            )
    assert len(master.nodes) == 20_000


async def test_reports_take_no_more_than_so_much_memory() -> None:
    master = OfnetMaster()
    methods = master.methods()
    wide = ("\N{BRAHMI LETTER A}" * MAX_ERROR,) * MAX_ERRORS
    each = MAX_ERRORS * MAX_ERROR * 4
    most = MAX_MEMORY // each
    for number in range(most + 10):
        node = Node(f"host-{number}", 9002)
        await methods[REPORT](AgentReport(node=node, host="h", errors=wide).to_json())
    assert most * 0.9 < len(master.nodes) < most
    assert Node("host-0", 9002) not in master.nodes
    assert Node(f"host-{most + 9}", 9002) in master.nodes, "the newest is kept"
    # what is forgotten, or replaced by less, makes room again
    for known in list(master.nodes)[:200]:
        await methods[REGISTER_NODE](known.to_json())
    for known in list(master.nodes)[200:400]:
        await methods[UNREGISTER_NODE](known.to_json())
    kept = set(master.nodes)
    for number in range(390):
        node = Node(f"other-{number}", 9002)
        await methods[REPORT](AgentReport(node=node, host="h", errors=wide).to_json())
    assert kept < set(master.nodes)


async def test_an_agent_that_stops_to_report_is_forgotten() -> None:
    now = 0.0
    master = OfnetMaster(clock=lambda: now)
    methods = master.methods()
    await methods[REGISTER_NODE](VLAN.to_json())  # as an agent of the original: it never reports
    await methods[REPORT](AgentReport(node=VXLAN, host="h1").to_json())
    other = AgentReport(node=Node("10.77.0.2", 9002), host="h2")
    now = SILENCE - 1
    await methods[REPORT](other.to_json())
    assert set(master.nodes) == {VLAN, VXLAN, other.node}
    now = SILENCE
    await methods[REPORT](other.to_json())
    assert set(master.nodes) == {VLAN, other.node}


async def test_a_new_registration_clears_the_report() -> None:
    master = OfnetMaster()
    methods = master.methods()
    await methods[REGISTER_NODE](VXLAN.to_json())
    await methods[REPORT](AgentReport(node=VXLAN, host="h1", revisions={"/a/": 12}).to_json())
    # its host was started anew, and its switch is empty
    await methods[REGISTER_NODE](VXLAN.to_json())
    assert master.nodes == {VXLAN: AgentReport(node=VXLAN)}


async def test_an_agent_takes_masters_and_answers_inspection() -> None:
    masters: list[Node] = []

    async def add(master: Node) -> None:
        masters.append(master)

    methods = OfnetAgent(add_master=add, inspect=lambda: {"vxlan": {}}).methods()
    assert await methods[ADD_MASTER](Node("10.77.0.9", 9001).to_json())
    assert masters == [Node("10.77.0.9", 9001)]
    assert await methods[DUMMY]("dummy")
    assert await methods[INSPECT]("") == {"vxlan": {}}


@pytest.mark.parametrize("period", [0, -1, True, "3", 1e9, None])
async def test_a_period_that_is_none_is_never_overdue(period: object) -> None:
    said = AgentReport(node=VXLAN, host="h1").to_json() | {"Repeat": period}
    read = AgentReport.from_json(said)
    assert read.repeat is None
    assert not read.is_overdue(1e9)


async def test_a_report_is_overdue_after_some_of_its_periods() -> None:
    now = 100.0
    master = OfnetMaster(clock=lambda: now)
    report = AgentReport(node=VXLAN, host="h1", repeat=2.0)
    await master.methods()[REPORT](report.to_json())
    (kept,) = master.nodes.values()
    assert kept == report
    assert [kept.is_overdue(at) for at in (100.0, 106.0, 106.1)] == [False, False, True]


async def test_a_master_tells_that_a_report_is_new() -> None:
    told: list[int] = []
    master = OfnetMaster(changed=lambda: told.append(1))
    methods = master.methods()
    report = AgentReport(node=VXLAN, host="h1", errors=("table full",))
    for sent, times in ((report, 1), (report, 1), (AgentReport(node=VXLAN, host="h1"), 2)):
        await methods[REPORT](sent.to_json())
        assert len(told) == times
    await methods[UNREGISTER_NODE](VXLAN.to_json())
    assert len(told) == 3


async def test_a_master_tells_that_a_report_is_overdue() -> None:
    told: list[int] = []
    now = 100.0
    master = OfnetMaster(clock=lambda: now, changed=lambda: told.append(1))
    await master.methods()[REPORT](AgentReport(node=VXLAN, host="h1", repeat=2.0).to_json())
    master.look()
    assert len(told) == 1  # the report
    now = 106.1
    for _ in range(2):
        master.look()
        assert len(told) == 2
