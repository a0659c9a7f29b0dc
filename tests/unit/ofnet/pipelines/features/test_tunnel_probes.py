"""Questions of other hosts go back by the port they came by; answers go to the agent."""

from ofnet.pipelines.features.tunnel_probes import (
    ANSWERED,
    ASKED,
    SHORTEST,
    answer_of,
    flows,
    question,
)


def test_the_flows() -> None:
    assert [str(flow) for flow in flows()] == [
        f"table=1, priority=101,tun_id={ASKED:#x} actions=set_field:{ANSWERED:#x}->tun_id,IN_PORT",
        f"table=1, priority=101,tun_id={ANSWERED:#x} actions=CONTROLLER:65535",
    ]


def test_an_answer_is_told_by_run_and_number() -> None:
    frame = question(7, 3, 1464)
    assert len(frame) == 1464
    assert len(question(7, 3, 0)) == SHORTEST
    assert answer_of(7, frame) == 3
    assert answer_of(8, frame) is None, "another agent's"
    assert answer_of(7, frame[:20]) is None
    assert answer_of(7, bytes(60)) is None
