"""Whose endpoints are announced once a fabric has been told of a profile."""

from dataclasses import replace

from core.ids import GroupName, TenantName
from netplugin.world.aci_announcements import AciAnnouncements
from state.intents import Profile

PROFILE = Profile(TenantName("red"), "shop", (GroupName("web"), GroupName("db")))
GROUPS = ["web:red", "db:red"]


def test_a_launch_that_ends_concerns_the_profiles_groups() -> None:
    book = AciAnnouncements()
    assert book.launched("red:shop") == []
    book.put(PROFILE)
    assert book.launched("red:shop") == GROUPS
    assert book.launched("blue:shop") == []
    book.remove(PROFILE)
    assert book.launched("red:shop") == []


def test_a_profile_with_other_groups_was_launched() -> None:
    book = AciAnnouncements()
    assert book.put(PROFILE) == GROUPS
    assert book.put(PROFILE) == []
    assert book.put(replace(PROFILE, groups=(GroupName("db"),))) == ["db:red"]
