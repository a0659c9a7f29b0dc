"""The groups whose endpoints are announced after a launch on an ACI fabric. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it application profiles and the ends of launches (`state.intents`);
each change returns the groups whose endpoints must be announced.
"""

from core.ids import GroupKey, group_key
from state.intents import Profile


class AciAnnouncements:
    """The profiles of the cluster."""

    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}

    def put(self, profile: Profile) -> list[GroupKey]:
        """Add or replace a profile; return its groups if they changed."""
        # A profile and the end of its launch arrive in any order, and the launch may have ended
        # before this agent started. So a profile that is new, or has other groups, counts as
        # launched too.
        before = self._profiles.get(profile.key)
        self._profiles[profile.key] = profile
        changed = before is None or before.groups != profile.groups
        return self.launched(profile.key) if changed else []

    def remove(self, profile: Profile) -> None:
        """Remove a profile."""
        self._profiles.pop(profile.key, None)

    def launched(self, key: str) -> list[GroupKey]:
        """Return the groups of a profile whose launch ended; none if it was removed."""
        profile = self._profiles.get(key)
        if profile is None:
            return []
        return [group_key(group, profile.tenant) for group in profile.groups]
