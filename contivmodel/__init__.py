"""REST objects and bodies, shared by netmaster (server), netctl and netplugin (clients).

`wire` reads and writes models as the original's Go code does (with `syntax` for its error texts),
`checks` validates fields, `schema` describes models as JSON Schema. `objects`, `service_objects`
and `volume_objects` have the objects of `/api/v1`, `rpc` the bodies of `/plugin/*`. `client` is the
asyncio client of `/plugin/*`, `client_sync` the blocking client of netctl, over
`http_exchange`.
"""
