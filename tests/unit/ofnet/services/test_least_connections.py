"""Assignment by least connections, counted as clients come and go.

Also what the original's tests of its queue of providers (`pqueue_test.go`) show.
"""

from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from ofnet.services.least_connections import LeastConnections

A, B, C = (IPv4Address(f"10.1.0.{number}") for number in (1, 2, 3))
ALL = frozenset({A, B, C})


def loaded(**clients: int) -> LeastConnections:
    """Return a balance in which providers a, b and c have so many clients."""
    balance = LeastConnections()
    for name, number in clients.items():
        for client in range(number):
            balance.pin("s", (name, client), {"a": A, "b": B, "c": C}[name])
    return balance


def test_the_least_loaded_is_taken() -> None:
    assert loaded(a=3, b=1, c=2).assign("s", "new", ALL) == B


def test_of_equals_the_lowest_address_is_taken() -> None:
    assert LeastConnections().assign("s", "new", ALL) == A


def test_new_clients_go_round() -> None:
    balance = loaded(a=3, b=1, c=2)
    assert [balance.assign("s", n, ALL) for n in range(3)] == [B, B, C]
    assert {balance.load("s", one) for one in ALL} == {3}


def test_clients_that_go_bring_their_provider_to_the_front() -> None:
    balance = loaded(a=3, b=1)
    for client in range(3):
        balance.release("s", ("a", client))
    assert balance.load("s", A) == 0
    assert balance.assign("s", "new", {A, B}) == A


def test_a_provider_that_is_gone_leaves_the_others() -> None:
    assert loaded(a=0, b=1, c=2).assign("s", "new", {C}) == C


def test_a_client_stays() -> None:
    balance = LeastConnections()
    assert balance.assign("s", "one", {B}) == B
    assert balance.assign("s", "one", ALL) == B
    assert balance.load("s", B) == 1


def test_services_have_loads_of_their_own() -> None:
    balance = loaded(a=5)
    assert balance.assign("other", "new", {A, B}) == A
    assert balance.provider("s", "new") is None
    assert balance.clients("other", A) == {"new"}


def test_a_client_can_be_pinned_to_another_provider() -> None:
    balance = LeastConnections()
    balance.pin("s", "one", A)
    balance.pin("s", "one", B)
    assert (balance.load("s", A), balance.load("s", B)) == (0, 1)
    balance.release("s", "one")
    balance.release("s", "one")
    assert balance.provider("s", "one") is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_loads_are_what_is_held_and_never_apart_without_leaving(
    steps: list[tuple[bool, int]],
) -> None:
    balance = LeastConnections()
    held: dict[int, IPv4Address] = {}
    gone = False
    for come, client in steps:
        if come:
            held[client] = balance.assign("s", client, ALL)
        else:
            gone |= held.pop(client, None) is not None
            balance.release("s", client)
    loads = {one: list(held.values()).count(one) for one in ALL}
    assert loads == {one: balance.load("s", one) for one in ALL}
    assert gone or max(loads.values()) - min(loads.values()) <= 1
