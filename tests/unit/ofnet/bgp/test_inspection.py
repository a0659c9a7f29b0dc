"""The report of a session at `/inspect/bgp`."""

from ofnet.bgp.inspection import bgp_report
from ofnet.bgp.speaker import Speaker
from tests.unit.bgp_router import FakeRouter
from tests.unit.ofnet.bgp.speaker import NET, PEERING, established


def test_a_neighbour_that_does_not_answer() -> None:
    """As recorded from the original, of which the rest were zeros."""
    report = bgp_report(Speaker(PEERING, lambda: None))
    (neighbour,) = report["peers"]
    assert report.keys() == {"peers"}
    assert neighbour["Config"] == {
        "PeerAs": 65000,
        "LocalAs": 65002,
        "PeerType": "external",
        "NeighborAddress": "50.1.1.2",
        "AdminDown": False,
    }
    state = neighbour["State"]
    assert (state["SessionState"], state["AdminState"]) == ("idle", "ADMIN_STATE_UP")
    assert state["Messages"]["Sent"]["Total"] == 0
    assert neighbour["Timers"]["Config"] == {"HoldTime": 90, "KeepaliveInterval": 30}


async def test_a_session_and_its_prefixes() -> None:
    async with established(FakeRouter()) as host:
        report = bgp_report(host)
    state = report["peers"][0]["State"]
    assert report["dsts"] == [NET]
    assert (state["PeerAs"], state["RemoteRouterId"]) == (65000, "50.1.1.2")
    assert state["SessionState"] == "established"
    assert state["AdjTable"] == {"Advertised": 1, "Received": 1, "Accepted": 1}
    assert state["Messages"]["Received"]["Open"] == 1
    assert report["peers"][0]["Timers"]["State"]["NegotiatedHoldTime"] == 90
