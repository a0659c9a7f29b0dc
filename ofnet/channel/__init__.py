"""The connection to one switch: messages, transactions, and what the switch reports.

In come flows to add and remove; out come bytes, and the switch's acknowledgement or an error.
`wire` encodes messages, `session` is one connection, `switch` keeps one up and is what
`ofnet.agent` uses, `flow_stats` reads the switch's own flow entries.
"""
