"""Endpoints and addresses: grants, releases, and clean-up for hosts that are gone. Pure.

In come the view and a request of an agent (`endpoint`, `address`) or of an administrator (`drain`,
`cleanup`), or what was observed of hosts (`dead_hosts`); out come plans.
"""
