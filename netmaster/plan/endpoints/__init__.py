"""Endpoints and addresses: grants, releases, and clean-up for lost hosts. Pure.

In come the view and a request of an agent (`endpoint`, `address`) or of an administrator (`drain`,
`cleanup`), or observations of hosts (`dead_hosts`); out come plans.
"""
