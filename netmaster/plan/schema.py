"""The decision to stamp a store with the version of its schema."""

from core import keys
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state import schema


def startup(view: View) -> Plan:
    """Stamp a store without a stamp; a new leader does so before it writes anything else."""
    if view.schema is not None:
        return Plan((), reply=None)
    return Plan((Write(keys.SCHEMA, schema.CURRENT, new=True),), reply=None)
