"""REST objects and bodies, shared by netmaster (serves them), netctl and netplugin (ask for them).

`contivmodel.wire` says how a model is read and written the way the original's Go code does (with
`contivmodel.syntax` for its error texts), `contivmodel.checks` which values fields may have,
`contivmodel.objects` has the objects of `/api/v1`, `contivmodel.rpc` the bodies of `/plugin/*`,
`contivmodel.client` the typed REST client.
"""
