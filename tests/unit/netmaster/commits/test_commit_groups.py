"""Which changes may share a transaction group."""

import pytest

from contivmodel.objects import EndpointGroup, Network
from core import keys
from core.ids import EndpointKey, GroupKey, NetworkId
from netmaster.commits.commit_groups import shared_prefixes
from netmaster.stored import Write

ENDPOINT = keys.endpoint(EndpointKey("n.t-c"))
GRANT = keys.grant(NetworkId("n.t"), "10.0.0.1")
RULE = keys.obj("rule", "t:p:1")
NETWORK = (keys.obj(Network.kind, "t:n"), keys.network(NetworkId("n.t")))
GROUP = (keys.obj(EndpointGroup.kind, "t:g"), keys.group(GroupKey("g:t")))


def writes(*written: str, new: bool = True) -> list[Write]:
    return [Write(key, b"", new=new) for key in written]


@pytest.mark.parametrize("new", [True, False])
def test_endpoints_share_with_endpoints_and_rules_with_rules(*, new: bool) -> None:
    endpoints = shared_prefixes(writes(ENDPOINT, GRANT, new=new))
    assert endpoints is not None
    assert shared_prefixes(writes(GRANT, new=new)) is endpoints
    rules = shared_prefixes(writes(RULE, new=new))
    assert rules is not None
    assert rules is not endpoints


@pytest.mark.parametrize("created", [(*NETWORK, GRANT), GROUP], ids=["network", "group"])
def test_creations_share_with_their_kind_and_changes_go_alone(created: tuple[str, ...]) -> None:
    assert shared_prefixes(writes(*created)) is not None
    assert shared_prefixes(writes(*created, new=False)) is None
    first, *others = created
    assert shared_prefixes([*writes(first, new=False), *writes(*others)]) is None


def test_kinds_do_not_mix() -> None:
    assert shared_prefixes(writes(*NETWORK)) is not shared_prefixes(writes(*GROUP))
    for mixed in ((*NETWORK, *GROUP), (ENDPOINT, RULE), (*GROUP, ENDPOINT)):
        assert shared_prefixes(writes(*mixed)) is None


def test_what_is_not_listed_goes_alone() -> None:
    assert shared_prefixes(writes(keys.GLOBAL_CONFIG)) is None
    assert shared_prefixes(writes(keys.obj("policy", "t:p"))) is None


@pytest.mark.parametrize("new", [True, False])
def test_the_record_of_who_made_a_change_is_beside_any(*, new: bool) -> None:
    record = writes(keys.change(7), new=new)
    for alone in (writes(ENDPOINT, GRANT), writes(RULE, new=False), writes(*NETWORK)):
        assert shared_prefixes([*alone, *record]) is shared_prefixes(alone) is not None
    assert shared_prefixes([*writes(keys.obj("policy", "t:p")), *record]) is None
