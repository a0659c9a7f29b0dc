"""The table of a master's life."""

from hypothesis import given
from hypothesis import strategies as st

from netmaster.election import TABLE, Effect, ElectionState, Input, step


def test_a_term_from_lock_to_loss() -> None:
    state, effects = step(ElectionState.FOLLOWER, Input.ACQUIRED)
    assert (state, effects) == (ElectionState.LOADING, (Effect.REFUSE,))
    state, effects = step(state, Input.LOADED)
    assert (state, effects) == (ElectionState.LEADER, (Effect.ANSWER, Effect.ANNOUNCE_LEADER))
    state, effects = step(state, Input.LOST)
    assert (state, effects) == (ElectionState.FOLLOWER, (Effect.FORWARD, Effect.ANNOUNCE_FOLLOWER))


def test_the_lock_is_given_up_whenever_it_is_held_and_of_no_use() -> None:
    for state in (ElectionState.LOADING, ElectionState.LEADER):
        for happened in (Input.FAILED, Input.STOP):
            assert Effect.RELEASE in step(state, happened)[1]
        assert Effect.RELEASE not in step(state, Input.LOST)[1]
    assert step(ElectionState.FOLLOWER, Input.STOP) == (ElectionState.STOPPED, ())


def test_nothing_happens_after_the_end() -> None:
    assert not [state for state, _ in TABLE if state is ElectionState.STOPPED]


def test_only_a_loaded_master_answers() -> None:
    answering = [key for key, (_, effects) in TABLE.items() if Effect.ANSWER in effects]
    assert answering == [(ElectionState.LOADING, Input.LOADED)]


@given(st.lists(st.sampled_from(Input)))
def test_only_the_leader_answers_requests(inputs: list[Input]) -> None:
    state, answering, holding = ElectionState.FOLLOWER, False, False
    for happened in inputs:
        if (state, happened) not in TABLE:
            continue
        holding = holding or happened is Input.ACQUIRED
        state, effects = step(state, happened)
        for effect in effects:
            match effect:
                case Effect.ANSWER:
                    answering = True
                case Effect.FORWARD | Effect.REFUSE:
                    answering = False
                case Effect.RELEASE:
                    holding = False
                case Effect.ANNOUNCE_LEADER | Effect.ANNOUNCE_FOLLOWER | Effect.FLUSH:
                    pass
        holding = holding and happened is not Input.LOST
        assert answering == (state is ElectionState.LEADER)
        assert holding == (
            state in {ElectionState.LOADING, ElectionState.LEADER, ElectionState.LEAVING}
        )
