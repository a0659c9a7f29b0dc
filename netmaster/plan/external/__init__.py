"""Changes with external side effects: what to tell ACI's gateway and what is unconfirmed. Pure.

In come the view and a plan's writes; out come the requests these writes cause (`aci`) and the
records that mark an external object as unconfirmed (`pending_effects`).
"""
