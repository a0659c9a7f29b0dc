"""CNI on the host: the unix-socket server, the calls it takes and the results it answers with.

In come the POSTs of `contivk8s`; `server` listens, `request` checks and types a call, the handler
(`netplugin.pods.handler`) does the work, `results` builds the CNI result or error object.
"""
