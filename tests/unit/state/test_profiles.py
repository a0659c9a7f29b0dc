"""Application profiles as agents read them."""

import pytest

from contivmodel import wire
from contivmodel.objects import AppProfile
from core import keys
from core.errors import Invalid
from core.ids import GroupName, TenantName
from state import intents
from state.intents import Launch, Profile

STORED = AppProfile(
    key="red:shop",
    tenant_name="red",
    app_profile_name="shop",
    endpoint_groups=["web", "db"],
)
KEY = keys.obj(AppProfile.kind, "red:shop")


def test_a_profile_names_its_groups() -> None:
    profile = intents.decode(KEY, wire.dumps(STORED))
    assert profile == Profile(TenantName("red"), "shop", (GroupName("web"), GroupName("db")))
    assert profile.key == "red:shop"


def test_a_profile_under_anothers_key_is_refused() -> None:
    with pytest.raises(Invalid):
        intents.decode(keys.obj(AppProfile.kind, "red:other"), wire.dumps(STORED))


def test_a_launch_is_its_key() -> None:
    assert intents.decode(keys.aci_launch("red:shop"), b"{}") == Launch("red:shop")
