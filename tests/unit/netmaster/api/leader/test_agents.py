"""What agents say of BGP, under the names of REST."""

from netmaster.api.leader.agents import bgp_state


def test_names_are_read_in_any_case_as_go_does() -> None:
    for peers, dsts in (("Peers", "Dsts"), ("peers", "dsts")):
        state = {"SessionState": "established", "AdminState": "ADMIN_STATE_UP"}
        assert bgp_state({peers: [{"State": state}], dsts: ["60.1.1.0/24"]}) == {
            "adminStatus": "ADMIN_STATE_UP",
            "neighborStatus": "established",
            "numRoutes": 1,
            "routes": ["60.1.1.0/24"],
        }


def test_an_agent_without_bgp() -> None:
    assert bgp_state(None) == {}
    assert bgp_state({}) == {"numRoutes": 0, "routes": []}
