"""The OpenFlow connection of one bridge: messages, requests, and flow statistics.

In come flows to add and delete, and packets; out come the switch's acknowledgements and reports.
`wire` encodes messages, `requests` matches answers to requests, `session` is one connection,
`workload` knows how long a busy switch may take, `switch` listens and is what `ofnet.agent` uses,
`flow_stats` reads the flows of service clients.
"""
