"""Services: finds the service of a packet and chooses a provider for its client. Pure.

In come packets that table 3 sent up, changed Worlds and the flows of an earlier agent; out come
`World.served` (from which `ofnet.pipelines.service_nat` makes flows) and statistics. `directory`
finds services by address, `clients` remembers who is served by whom, `least_connections` chooses,
`proxy` is what `ofnet.agent` calls, `stats` shows state and counters in the original's shapes.
"""
