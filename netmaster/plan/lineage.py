"""The decision to begin a term: it is added to the store's lineage."""

from core import keys
from netmaster.plan.model import Plan
from netmaster.stored import Write
from netmaster.view import View
from state import schema
from state.lineage import Term


def begin(view: View, term: Term) -> Plan:
    """Add a term; a new leader does so before it grants anything.

    A store of an older schema has no lineage: a master that could lead next would not read it.
    """
    if view.schema is not None and view.schema.version < schema.LINEAGE_SINCE:
        return Plan((), reply=None)
    write = Write(keys.LINEAGE, view.lineage.begin(term), new=not view.lineage.terms)
    return Plan((write,), reply=None)
