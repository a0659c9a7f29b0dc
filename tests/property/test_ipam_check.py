"""After any writes of other programs to the store, a check with a fix makes it consistent.

Endpoints come and go, and keys of addresses and endpoints are removed, written and rewritten behind
netmaster's back. After each fix, reading nothing but the store: no record of an endpoint was
touched, what was in order stays as it was, and what is still wrong is an address with two users.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core import keys
from core.ids import NetworkId
from netmaster import codec
from netmaster.plan.show import ipam_check
from netmaster.plan.show.ipam_check import IpamFindingKind
from state.records import GrantOwner, GrantRecord
from tests.property.holdings import grants_in
from tests.unit.netmaster.scene import NOW, Scene

N1 = NetworkId("n1.default")
GATEWAY = "10.1.1.62"
"""Beyond all that an example could use up."""
containers = st.sampled_from(["a", "b", "c", "d"])
addresses = st.builds("10.1.1.{}".format, st.integers(1, 8))
owners = st.sampled_from(
    [
        *((GrantOwner.ENDPOINT, f"n1.default-{container}") for container in "abcx"),
        (GrantOwner.GATEWAY, "n1.default"),
        (GrantOwner.GATEWAY, "gone.default"),
        (GrantOwner.VIP, "gone:default"),
        (GrantOwner.RESERVATION, ""),
    ]
)


def users(store: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return which endpoints use which address of the network, as their records say."""
    found: dict[str, list[str]] = {}
    for key, value in store.items():
        if key.startswith(keys.ENDPOINTS):
            record = json.loads(value)
            found.setdefault(record["ipAddress"], []).append(record["id"])
    return found


def in_order(store: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    """Return the addresses with one user, who holds it."""
    grants = grants_in(store).get("n1", {})
    return {
        address: ("endpoint", known[0])
        for address, known in users(store).items()
        if grants.get(address) == ("endpoint", known[0]) and len(known) == 1
    }


def under(store: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {key: value for key, value in store.items() if key.startswith(prefix)}


class Meddling(RuleBasedStateMachine):
    """A leader, and another program that writes to its prefixes."""

    @initialize()
    def begin(self) -> None:
        self.scene = Scene()
        self.scene.network("n1", "10.1.1.0/26", gateway=GATEWAY)
        self.others = under(self.scene.store, keys.OBJECTS)

    @rule(container=containers)
    def create(self, container: str) -> None:
        self.scene.endpoint(container)

    @precondition(lambda self: self.scene.view.endpoints)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.scene.view.endpoints)))
        self.scene.delete_endpoint(self.scene.view.endpoints[key].endpoint_id)

    @rule()
    def reserve(self) -> None:
        self.scene.allocate()

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        meant = [key for key in self.scene.store if key.startswith((keys.GRANTS, keys.ENDPOINTS))]
        if meant:
            del self.scene.store[data.draw(st.sampled_from(sorted(meant)))]
            self.scene.reload()

    @rule(address=addresses, owner=owners)
    def grant(self, address: str, owner: tuple[GrantOwner, str]) -> None:
        forged = GrantRecord(owner=owner[0], owner_id=owner[1], seq=99, granted_at=NOW)
        self.scene.store[keys.grant(N1, address)] = codec.encode(forged)
        self.scene.reload()

    @precondition(lambda self: self.scene.view.endpoints)
    @rule(address=addresses, data=st.data())
    def move(self, address: str, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.scene.view.endpoints)))
        moved = replace(self.scene.view.endpoints[key], ip_address=address)
        self.scene.store[keys.endpoint(key)] = codec.encode(moved)
        self.scene.reload()

    @rule()
    def fix(self) -> None:
        store = self.scene.store
        endpoints, right = under(store, keys.ENDPOINTS), in_order(store)
        places = ipam_check.suspected(self.scene.view, NOW)
        while mended := self.scene.do(ipam_check.fix, NOW, places):
            assert len(mended) <= ipam_check.CHUNK
        assert under(store, keys.ENDPOINTS) == endpoints
        assert right.items() <= in_order(store).items()
        self._is_consistent()

    def _is_consistent(self) -> None:
        store = self.scene.store
        known, grants = users(store), grants_in(store).get("n1", {})
        left = [finding.kind for finding in ipam_check.findings(self.scene.view, NOW)]
        assert set(left) <= {IpamFindingKind.CONTESTED}
        assert grants[GATEWAY] == ("gateway", N1)
        contested = Counter[str]()
        for address, holders in known.items():
            held_by, owner = grants.get(address, ("", ""))
            assert len(holders) > 1 or held_by == "reservation" or owner == holders[0]
            contested[address] = len([one for one in holders if one != owner])
        assert contested.total() == len(left)
        for address, (kind, owner) in grants.items():
            assert kind != "endpoint" or owner in known.get(address, ())

    @invariant()
    def nothing_else_is_touched(self) -> None:
        assert under(self.scene.store, keys.OBJECTS) == self.others


TestMeddling = Meddling.TestCase
TestMeddling.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("blunder", ["nobody uses anything", "every use is right"])
def test_a_wrong_check_is_seen(monkeypatch: pytest.MonkeyPatch, blunder: str) -> None:
    """Plant the bugs this is all about: live endpoints' addresses released, and lost ones left."""
    machine = Meddling()
    machine.begin()
    machine.create("a")
    if blunder == "nobody uses anything":
        monkeypatch.setattr(ipam_check, "_uses", lambda _: {})
    else:
        monkeypatch.setattr(ipam_check, "_wrong_uses", lambda *_: iter(()))
        del machine.scene.store[keys.grant(N1, "10.1.1.1")]
        machine.scene.reload()
    with pytest.raises(AssertionError):
        machine.fix()
