"""This agent's connections to netmaster: requests, progress reports and its own registration.

Out go REST requests to the leader (`master_api`), registrations in the store (`registration`) and
reports over the ofnet control channel to every master (`control`), with the contents of `progress`.
"""
