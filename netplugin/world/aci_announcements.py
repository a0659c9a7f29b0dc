"""The groups whose endpoints are announced after a launch on an ACI fabric. Pure: no I/O, no clock.

`netplugin.world.graph` feeds it application profiles and the ends of launches (`state.intents`). On
such a fabric it marks the endpoints of the groups on the vlan bridge.
"""

from collections.abc import Mapping
from typing import Protocol

from core.ids import GroupKey, group_key
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.forwarding_mode import ForwardingMode
from state.intents import Profile
from state.records import GroupRecord


class KnownGroups(Protocol):
    """The groups (`netplugin.world.cluster_endpoints.endpoints`)."""

    def group(self, key: GroupKey) -> GroupRecord | None:
        """Return the record of a group, None without one."""


class AciAnnouncements:
    """The profiles of the cluster."""

    def __init__(
        self,
        groups: KnownGroups,
        forwarding: ForwardingMode,
        vlan: BridgeState,
    ) -> None:
        self._groups = groups
        self._forwarding = forwarding
        self._vlan = vlan
        self._profiles: dict[str, Profile] = {}
        self._launches: dict[int, int] = {}

    @property
    def launches(self) -> Mapping[int, int]:
        """How often each group was announced, by its id."""
        return self._launches

    def put(self, profile: Profile) -> None:
        """Add or replace a profile."""
        # A profile and the end of its launch arrive in any order, and the launch may have ended
        # before this agent started. So a profile that is new, or has other groups, counts as
        # launched too.
        before = self._profiles.get(profile.key)
        self._profiles[profile.key] = profile
        if before is None or before.groups != profile.groups:
            self.launched(profile.key)

    def remove(self, key: str) -> None:
        """Remove a profile."""
        self._profiles.pop(key, None)

    def launched(self, key: str) -> None:
        """Announce the groups of a profile whose launch ended; none if it was removed."""
        profile = self._profiles.get(key)
        if profile is None or not self._forwarding.fabric_enforces:
            return
        for name in profile.groups:
            if (group := self._groups.group(group_key(name, profile.tenant))) is not None:
                self._launches[group.group_id] = self._launches.get(group.group_id, 0) + 1
                self._vlan.announce(group.group_id)
