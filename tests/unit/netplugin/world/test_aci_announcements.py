"""Whose endpoints are announced once a fabric has been told of a profile."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from core.ids import GroupName, TenantName
from netplugin.world.aci_announcements import AciAnnouncements
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.forwarding_mode import ForwardingMode
from ofnet.world import Bridge, FwdMode
from state.intents import Profile
from state.records import GroupRecord
from tests.unit.netplugin.records import group
from tests.unit.netplugin.worlds import settings

PROFILE = Profile(TenantName("red"), "shop", (GroupName("web"), GroupName("db")))
KNOWN: dict[str, GroupRecord] = {
    "web:red": replace(group(), group_id=7),
    "db:red": replace(group(), group_id=8),
}


def announcements(infra: str = "aci") -> AciAnnouncements:
    known = Mock(group=KNOWN.get)
    forwarding = ForwardingMode(FwdMode.ROUTING)
    forwarding.put(replace(settings(), infra_type=infra))
    return AciAnnouncements(known, forwarding, BridgeState(Bridge.VLAN, ChangeSignal()))


@pytest.fixture
def book() -> AciAnnouncements:
    return announcements()


def test_a_launch_that_ends_concerns_the_profiles_groups(book: AciAnnouncements) -> None:
    book.launched("red:shop")
    assert book.launches == {}
    book.put(PROFILE)
    book.launched("red:shop")
    assert book.launches == {7: 2, 8: 2}
    book.launched("blue:shop")
    book.remove("red:shop")
    book.launched("red:shop")
    assert book.launches == {7: 2, 8: 2}


def test_a_profile_with_other_groups_was_launched(book: AciAnnouncements) -> None:
    book.put(PROFILE)
    book.put(PROFILE)
    assert book.launches == {7: 1, 8: 1}
    book.put(replace(PROFILE, groups=(GroupName("db"), GroupName("unknown"))))
    assert book.launches == {7: 1, 8: 2}


def test_without_a_fabric_nothing_is_announced() -> None:
    book = announcements("default")
    book.put(PROFILE)
    assert book.launches == {}
