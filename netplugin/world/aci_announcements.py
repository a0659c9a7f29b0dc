"""Which groups an ACI fabric has just been told of. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it application profiles and the ends of launches (`state.intents`);
it says each time whose endpoints are to be announced. What a profile holds and the end of its
launch come in any order, and a launch may be over before anybody looked: a profile that is new, or
holds other groups, counts as launched too.
"""

from core.ids import GroupKey, group_key
from state.intents import Profile


class AciAnnouncements:
    """The profiles of the cluster."""

    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}

    def put(self, profile: Profile) -> list[GroupKey]:
        """Learn or replace a profile; return its groups, if they are not those it had."""
        before = self._profiles.get(profile.key)
        self._profiles[profile.key] = profile
        changed = before is None or before.groups != profile.groups
        return self.launched(profile.key) if changed else []

    def remove(self, profile: Profile) -> None:
        """Forget a profile."""
        self._profiles.pop(profile.key, None)

    def launched(self, key: str) -> list[GroupKey]:
        """Return the groups of a profile whose launch is over; none of one that is gone."""
        profile = self._profiles.get(key)
        if profile is None:
            return []
        return [group_key(group, profile.tenant) for group in profile.groups]
