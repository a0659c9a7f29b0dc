"""Link-sets follow from who names whom, and end with that."""

import pytest

from contivmodel.objects import (
    AppProfile,
    EndpointGroup,
    Link,
    Netprofile,
    Network,
    RestObject,
    Tenant,
)
from contivmodel.wire import dumps
from netmaster.indexes.backlinks import Backlinks

TENANT = Tenant(key="t", tenant_name="t")
NETWORK = Network(key="t:x", tenant_name="t", network_name="x")
PROFILE = Netprofile(key="t:x", tenant_name="t", profile_name="x")
GROUP = EndpointGroup(key="t:g", tenant_name="t", group_name="g", network_name="x")


@pytest.fixture
def names() -> Backlinks:
    names = Backlinks()
    for stored in (TENANT, NETWORK, PROFILE, GROUP):
        names.add(stored)
    return names


def test_one_key_of_two_kinds_is_told_apart(names: Backlinks) -> None:
    link = Link(type="endpointGroup", key="t:g")
    assert names.members("endpointGroup", "network", "t:x") == {"t:g": link}
    assert names.members("endpointGroup", "netprofile", "t:x") == {}
    linked = names.linked(NETWORK)
    assert isinstance(linked, Network)
    assert linked.link_sets.endpoint_groups == {"t:g": link}
    assert names.linked(PROFILE) == PROFILE


def test_a_tenant_shows_what_names_it(names: Backlinks) -> None:
    linked = names.linked(TENANT)
    assert isinstance(linked, Tenant)
    assert set(linked.link_sets.networks) == {"t:x"}
    assert set(linked.link_sets.net_profiles) == {"t:x"}
    assert set(linked.link_sets.endpoint_groups) == {"t:g"}
    assert linked.link_sets.policies == {}


def test_links_end_with_the_object_that_names(names: Backlinks) -> None:
    names.remove(GROUP)
    assert names.linked(NETWORK) == NETWORK
    names.remove(GROUP)
    for stored in (NETWORK, PROFILE):
        names.remove(stored)
    assert names.linked(TENANT) == TENANT


def test_an_object_shows_what_it_names_before_it_is_stored() -> None:
    group = GROUP.model_copy(update={"ext_contracts_grps": ["c", "c"], "policies": ["p"]})
    linked = Backlinks().linked(group)
    assert isinstance(linked, EndpointGroup)
    assert set(linked.link_sets.ext_contracts_grps) == {"t:c"}
    assert set(linked.link_sets.policies) == {"t:p"}


def listed(names: Backlinks, *stored: RestObject) -> list[bytes]:
    """Return the lists of the kinds of objects that are the only ones of their kind."""
    return [names.listed(one.kind, {one.key: one}) for one in stored]


def list_of(names: Backlinks, one: RestObject) -> bytes:
    """Return the list of one object, made now."""
    return dumps([names.linked(one)]) + b"\n"


def test_what_is_kept_encoded_follows_what_names_it(names: Backlinks) -> None:
    objects = (TENANT, NETWORK, PROFILE, GROUP)
    profile = AppProfile(key="t:a", tenant_name="t", app_profile_name="a", endpoint_groups=["g"])
    seen = []
    for change, changed in (
        (names.add, TENANT),
        (names.add, profile),
        (names.remove, profile),
        (names.remove, GROUP),
        (names.add, GROUP),
    ):
        change(changed)
        seen.append(listed(names, *objects))
        assert seen[-1] == [list_of(names, one) for one in objects]
    assert seen[0] == seen[2] == seen[4]
    assert seen[1][0] != seen[0][0]  # the tenant's link-set
    assert seen[1][3] != seen[0][3]  # the group's link


def test_an_object_that_is_replaced_is_encoded_anew(names: Backlinks) -> None:
    assert listed(names, GROUP) == [list_of(names, GROUP)]
    changed = GROUP.model_copy(update={"policies": ["p"]})
    names.remove(GROUP)
    names.add(changed)
    assert listed(names, changed) == [list_of(names, changed)]


def test_a_list_grows_and_shrinks_with_its_objects(names: Backlinks) -> None:
    other = NETWORK.model_copy(update={"key": "t:y", "network_name": "y"})
    both = {NETWORK.key: NETWORK, other.key: other}
    alone = listed(names, NETWORK)
    names.add(other)
    assert names.listed(Network.kind, both) == dumps([*map(names.linked, both.values())]) + b"\n"
    names.remove(other)
    assert listed(names, NETWORK) == alone
