"""The checker finds each way in which clients can be wronged, and supposes nothing."""

import json

import pytest

from core import keys
from core.ids import EndpointKey, NetworkId
from tests.system.faults.checker import violations
from tests.system.faults.evidence import GATEWAY, RESERVATION, Evidence, Told, group_of
from tests.system.faults.history import Done, History, NotDone, Outcome, Refused, Unknown, Verb

NETWORK = "n"
CLIENT = "c1"
A, B, C = "10.1.0.1", "10.1.0.2", "10.1.0.3"
GONE = Refused(absent=True)
LATE = Unknown("no answer in time")


class Tale:
    """A history and what is there at the end, told line by line."""

    def __init__(self) -> None:
        self.history = History()
        self.store: dict[str, bytes] = {}
        self._grant("10.1.0.254", GATEWAY, "n.default")

    def says(self, verb: Verb, name: str, outcome: Outcome | str, client: str = CLIENT) -> "Tale":
        operation = self.history.invoke(verb, client, NETWORK, name)
        told = Done(outcome) if isinstance(outcome, str) else outcome
        self.history.end(operation, told)
        return self

    def endpoint(self, name: str, address: str) -> "Tale":
        record = {
            "id": f"n.default-{name}",
            "netID": "n.default",
            "endpointID": name,
            "ipAddress": address,
            "ipv6Address": "",
        }
        key = keys.endpoint(EndpointKey(record["id"]))
        self.store[key] = json.dumps(record).encode()
        self._grant(address, "endpoint", record["id"])
        return self

    def reservation(self, address: str, client: str = CLIENT) -> "Tale":
        self._grant(address, RESERVATION, f"{group_of(client, NETWORK)}:default")
        return self

    def free(self, address: str) -> "Tale":
        del self.store[keys.grant(NetworkId("n.default"), address)]
        return self

    def ends(self, told: Told | None = None) -> list[str]:
        evidence = Evidence(self.store, {})
        truth = Told(
            count=len(evidence.grants(NETWORK)) - 1,
            allocated=frozenset(evidence.grants(NETWORK)),
            endpoints=evidence.endpoints(NETWORK),
        )
        return violations(self.history, Evidence(self.store, {NETWORK: told or truth}))

    def _grant(self, address: str, kind: str, owner: str) -> None:
        grant = {"owner": kind, "ownerID": owner}
        self.store[keys.grant(NetworkId("n.default"), address)] = json.dumps(grant).encode()


@pytest.fixture
def tale() -> Tale:
    return Tale()


def test_what_was_acknowledged_and_holds_is_well(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.LOOK, "e1", A).endpoint("e1", A)
    tale.says(Verb.CREATE, "e2", B).says(Verb.DELETE, "e2", B)
    tale.says(Verb.ALLOCATE, "r1", B).reservation(B)
    tale.says(Verb.ALLOCATE, "r2", C).says(Verb.RELEASE, "r2", C)
    tale.says(Verb.CREATE, "e3", Refused(absent=False))
    assert tale.ends() == []


def test_an_address_given_twice(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.CREATE, "e2", A)
    tale.says(Verb.DELETE, "e1", A).says(Verb.DELETE, "e2", A)
    assert tale.ends() == [f"{A} on n was held by e1 and e2 at once"]


def test_an_address_reserved_while_it_is_held(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.ALLOCATE, "r1", A)
    tale.says(Verb.DELETE, "e1", A).says(Verb.RELEASE, "r1", A)
    assert tale.ends() == [f"{A} on n was held by e1 and r1 at once"]


def test_an_address_may_be_given_again_once_its_release_was_asked_for(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A)
    release = tale.history.invoke(Verb.DELETE, CLIENT, NETWORK, "e1")
    tale.says(Verb.CREATE, "e2", A, "c2").endpoint("e2", A)
    tale.history.end(release, Done(A))
    assert tale.ends() == []


def test_an_acknowledged_endpoint_that_is_lost(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A)
    assert tale.ends() == [f"e1 on n was acknowledged {A}, the store has None"]


def test_an_acknowledged_endpoint_that_moved(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).endpoint("e1", B)
    assert tale.ends() == [f"e1 on n was acknowledged {A}, the store has {B}"]


def test_an_acknowledged_reservation_that_is_lost(tale: Tale) -> None:
    tale.says(Verb.ALLOCATE, "r1", A)
    assert tale.ends() == [f"r1 on n was acknowledged {A}, the store has None"]


def test_an_endpoint_that_vanished_before_its_deletion(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.DELETE, "e1", GONE)
    assert tale.ends() == ["e1 on n was not there to delete, though acknowledged"]


def test_a_look_from_a_stale_view(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.LOOK, "e1", GONE).endpoint("e1", A)
    assert tale.ends() == ["e1 on n was not there to look, though acknowledged"]


def test_a_look_that_shows_another_address(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.LOOK, "e1", B).endpoint("e1", A)
    assert tale.ends() == [f"e1 on n has {A}, but look was told {B}"]


def test_two_answers_to_one_endpoint(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.CREATE, "e1", B).endpoint("e1", A)
    assert tale.ends() == [f"e1 on n was told different addresses: {A}, {B}"]


def test_a_deleted_endpoint_that_is_still_there(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.DELETE, "e1", A).endpoint("e1", A)
    assert tale.ends() == [f"e1 on n holds {A}, but was deleted or never asked for"]


def test_an_endpoint_that_was_refused_and_is_there(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", Refused(absent=False)).endpoint("e1", A)
    assert tale.ends() == [f"e1 on n holds {A}, but was deleted or never asked for"]


def test_a_released_address_that_is_still_reserved(tale: Tale) -> None:
    tale.says(Verb.ALLOCATE, "r1", A).says(Verb.RELEASE, "r1", A).reservation(A)
    # another client's doubts explain nothing
    tale.says(Verb.ALLOCATE, "r2", LATE, "c2")
    assert tale.ends() == [f"{A} on n is reserved for c1, but was released or never asked for"]


def test_an_endpoint_without_its_address(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).endpoint("e1", A).free(A)
    assert tale.ends() == [f"n.default-e1 uses {A} on n without holding it"]


def test_an_address_without_its_endpoint(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).endpoint("e1", A)
    tale.says(Verb.CREATE, "e2", LATE).endpoint("e2", B)
    del tale.store[keys.endpoint(EndpointKey("n.default-e2"))]
    assert tale.ends() == [f"n.default-e2 holds {B} on n without using it"]


def test_an_address_that_two_endpoints_have_in_the_store(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.CREATE, "e2", LATE)
    tale.endpoint("e2", A).endpoint("e1", A)
    assert f"{A} on n is held 2 times" in tale.ends()


def test_a_request_of_unknown_outcome_may_have_been_done_or_not(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", LATE).endpoint("e1", A)
    tale.says(Verb.CREATE, "e2", LATE)
    tale.says(Verb.ALLOCATE, "r1", LATE).reservation(B)
    tale.says(Verb.ALLOCATE, "r2", LATE)
    assert tale.ends() == []


def test_what_was_surely_not_done_leaves_nothing(tale: Tale) -> None:
    refused = NotDone("Leader not found")
    tale.says(Verb.CREATE, "e", refused).says(Verb.CREATE, "f", A).says(Verb.DELETE, "f", refused)
    tale.endpoint("f", A)
    assert tale.ends() == []
    tale.endpoint("e", B)
    assert tale.ends() == ["e on n holds 10.1.0.2, but was deleted or never asked for"]


def test_a_reservation_that_was_surely_not_made_is_not_there(tale: Tale) -> None:
    tale.says(Verb.ALLOCATE, "r", NotDone("Leader not found")).says(Verb.ALLOCATE, "s", A)
    tale.reservation(A).reservation(B)
    assert len(tale.ends()) == 1


def test_a_release_of_unknown_outcome_may_have_been_done_or_not(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.DELETE, "e1", LATE).endpoint("e1", A)
    tale.says(Verb.CREATE, "e2", B).says(Verb.DELETE, "e2", LATE)
    tale.says(Verb.ALLOCATE, "r1", B).says(Verb.RELEASE, "r1", LATE)
    tale.says(Verb.CREATE, "e3", B).endpoint("e3", B)
    tale.says(Verb.ALLOCATE, "r2", C).says(Verb.RELEASE, "r2", LATE).reservation(C)
    assert tale.ends() == []


def test_a_deletion_that_is_repeated_may_find_nothing(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).says(Verb.DELETE, "e1", LATE).says(Verb.DELETE, "e1", GONE)
    assert tale.ends() == []


def test_a_creation_that_comes_late_may_outlive_the_deletion(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", LATE).says(Verb.CREATE, "e1", A).says(Verb.DELETE, "e1", A)
    tale.endpoint("e1", B)
    assert tale.ends() == []


def test_netmaster_that_tells_something_else_than_the_store(tale: Tale) -> None:
    tale.says(Verb.CREATE, "e1", A).endpoint("e1", A)
    told = Told(count=2, allocated=frozenset({A, B}), endpoints={"e1": B})
    assert tale.ends(told) == [
        "netmaster tells other endpoints of n than the store: ['e1']",
        "netmaster tells other addresses of n than the store: ['10.1.0.2', '10.1.0.254']",
        "netmaster counts 2 addresses of n, the store has 1",
    ]


def test_a_long_history_is_judged_as_a_short_one(tale: Tale) -> None:
    """One life of 30 000 requests, and as many lives of a few: minutes if time grew squared."""
    tale.says(Verb.CREATE, "long", A).endpoint("long", A)
    for _ in range(30_000):
        tale.says(Verb.LOOK, "long", A)
    for number in range(30_000):
        tale.says(Verb.CREATE, f"e{number}", B).says(Verb.DELETE, f"e{number}", B)
    assert tale.ends() == []
    tale.says(Verb.LOOK, "long", B)
    assert tale.ends() == [f"long on n has {A}, but look was told {B}"]


def test_an_inspection_is_read() -> None:
    oper = {
        "allocatedAddressesCount": 3,
        "allocatedIPAddresses": "10.1.0.1-10.1.0.3, 10.1.0.254",
        "endpoints": [{"endpointID": "e1", "ipAddress": [A, ""]}],
    }
    assert Told.read(oper) == Told(3, frozenset({A, B, C, "10.1.0.254"}), {"e1": A})
    assert Told.read({}) == Told(0, frozenset(), {})
