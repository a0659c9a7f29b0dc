"""Decisions about the one object of the ACI gateway's settings.

Source: docs/original/netmaster-rest.md §2, aciGw.
"""

from contivmodel.objects import AciGw, AppProfile
from core import keys
from core.errors import Conflict, NotFound
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View


def create(view: View, posted: AciGw) -> Plan:
    """Set or replace the gateway's settings; existing profiles use them at their next change."""
    key = posted.object_key()
    stored = view.objects[AciGw.kind].get(key)
    gateway = posted.model_copy(update={"key": key})
    if gateway == stored:
        return Plan((), reply=gateway)
    return Plan((Write(keys.obj(AciGw.kind, key), gateway, new=stored is None),), reply=gateway)


def update(view: View, posted: AciGw) -> Plan:
    """Replace all settings."""
    return create(view, posted)


def delete(view: View, key: str) -> Plan:
    """Delete the settings, if no application profile needs them."""
    if key not in view.objects[AciGw.kind]:
        raise NotFound("aciGw not found")
    if profiles := len(view.objects[AppProfile.kind]):
        raise Conflict(f"{profiles} App-Profiles found. Delete them first")
    return Plan((Write(keys.obj(AciGw.kind, key), None, new=False),), reply=key)
