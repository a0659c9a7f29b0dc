"""How long a call waits for members that do not answer."""

import pytest

from core.errors import StoreUnavailable
from objdb.failover import Failover, NoAnswer, RetryPolicy


class Silent:
    """A member that never answers; `given` are the seconds that it had."""

    address = "silent"

    def __init__(self) -> None:
        self.given: list[float] = []


async def _call(members: list[Silent], policy: RetryPolicy) -> None:
    async def ask(member: Silent, attempt: float) -> None:
        member.given.append(attempt)
        raise NoAnswer("none")

    with pytest.raises(StoreUnavailable):
        await Failover(members).call_members(ask, policy)


async def test_members_have_twice_as_long_each_time_all_were_asked() -> None:
    given: list[float] = []

    async def ask(member: Silent, attempt: float) -> list[float]:
        given.append(attempt)
        if len(given) == 6:
            return given
        raise NoAnswer(member.address)

    await Failover([Silent(), Silent()]).call_members(ask, RetryPolicy(attempt=0.01, budget=60.0))
    assert given == [0.01, 0.01, 0.02, 0.02, 0.04, 0.04]


async def test_an_attempt_takes_no_longer_than_the_budget_lasts() -> None:
    member = Silent()
    await _call([member], RetryPolicy(attempt=0.1, budget=0.15))
    assert all(given <= 0.15 for given in member.given)


async def test_each_attempt_has_its_first_length_at_least() -> None:
    member = Silent()
    await _call([member], RetryPolicy(attempt=1.0, budget=0.1))
    assert set(member.given) == {1.0}


async def test_why_there_is_no_answer_is_known_until_there_is_one() -> None:
    members, seen = Failover([Silent()]), []

    async def ask(_member: Silent, _attempt: float) -> None:
        seen.append(members.trouble)
        if len(seen) < 3:
            raise NoAnswer(f"reason {len(seen)}")

    await members.call_members(ask, RetryPolicy(attempt=0.01, budget=60.0))
    assert seen == ["", "store silent: reason 1", "store silent: reason 2"]
    assert members.trouble == ""
