"""The service proxy: finds the service of a packet and assigns a provider to its client. Pure.

In come packets that table 3 sent up, changed Worlds and the flows of an earlier agent; out come
`World.served` (from which `ofnet.pipelines.service_nat` makes flows) and statistics. `directory`
finds services by address, `clients` keeps each client's provider, `least_connections` chooses it,
`proxy` is what `ofnet.agent` calls, `stats` reports state and counters in the original's shapes.
"""
