"""How many requests of a kind are answered at once, and whose."""

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemons.certificates.peers import Role
from netmaster.api.http.places import LimitedPlaces, PlaceLimits
from netmaster.api.http.problems import TooManyAtOnce
from netmaster.auth.roles import Identity

JOE = Identity(Role.ADMIN, "joe")
LIMIT = PlaceLimits(total=10, per_client=4, reserve=3, per_address=5)


def take(places: LimitedPlaces, stack: ExitStack, who: Identity | None, address: str) -> bool:
    try:
        stack.enter_context(places.taken(who, address))
    except TooManyAtOnce:
        return False
    return True


def test_a_client_is_one_at_all_its_addresses() -> None:
    places, olga = LimitedPlaces("watches", LIMIT), Identity(Role.OPERATOR, "olga")
    with ExitStack() as stack:
        taken = [take(places, stack, olga, f"192.0.2.{number}") for number in range(10)]
        assert taken.count(True) == LIMIT.per_client
        assert take(places, stack, Identity(Role.OPERATOR, "paul"), "192.0.2.1")
    with ExitStack() as stack:
        assert take(places, stack, olga, "192.0.2.1")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Role.OPERATOR, Role.READER, Role.AGENT]),
            st.sampled_from("abcdef"),
            st.sampled_from(["192.0.2.1", "192.0.2.2"]),
        )
    )
)
def test_an_administrator_always_finds_a_place(asked: list[tuple[Role, str, str]]) -> None:
    places = LimitedPlaces("watches", LIMIT)
    with ExitStack() as stack:
        taken = sum(
            take(places, stack, Identity(role, name), address) for role, name, address in asked
        )
        assert taken <= LIMIT.total - LIMIT.reserve
        for _ in range(LIMIT.reserve):
            assert take(places, stack, JOE, "192.0.2.1")


def test_who_is_not_known_is_counted_by_address() -> None:
    places = LimitedPlaces("watches", LIMIT)
    with ExitStack() as stack:
        for address in ("192.0.2.1", "192.0.2.2"):
            taken = [take(places, stack, None, address) for _ in range(9)]
            assert taken.count(True) == LIMIT.per_address
        assert not take(places, stack, None, "192.0.2.3")


def test_a_refusal_says_who_has_how_many() -> None:
    places = LimitedPlaces("captures", PlaceLimits(total=1, per_client=1, reserve=0, per_address=1))
    with ExitStack() as stack:
        assert take(places, stack, JOE, "")
        with pytest.raises(TooManyAtOnce, match="1 captures are open, 1 of them of admin/joe"):
            stack.enter_context(places.taken(JOE, ""))
