"""Changes with external side effects: operations of the ACI gateway, pending effects. Pure.

In come the view and a plan's writes; out come the operations these writes require (`aci`) and the
writes that store and end pending effects (`pending_effects`).
"""
