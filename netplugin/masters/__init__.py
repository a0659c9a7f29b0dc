"""This agent's dealings with netmaster: requests, reports and its own registration.

Out go REST requests to the leader (`client`), registrations in the store (`registration`) and
reports over the ofnet control channel to every master (`control`), of what `progress` counted.
"""
