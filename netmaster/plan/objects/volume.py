"""Decisions about volumes and volume profiles: none is ever created.

The original serves their routes and has nothing behind them (docs/original/netmaster-rest.md §2).
"""

from contivmodel.volume_objects import Volume, VolumeProfile
from core.errors import Invalid, NotFound
from netmaster.plan.model import Plan
from netmaster.view import View


def create(_view: View, _posted: Volume | VolumeProfile) -> Plan:
    """Refuse, in the original's words."""
    raise Invalid("Invalid object type")


def delete_volume(_view: View, _key: str) -> Plan:
    """Refuse: there is none."""
    raise NotFound("volume not found")


def delete_profile(_view: View, _key: str) -> Plan:
    """Refuse: there is none."""
    raise NotFound("volumeProfile not found")
