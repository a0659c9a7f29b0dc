"""CNI on the host: the unix-socket server, its requests and its results.

In come the POSTs of `contivk8s`; out go CNI results and error objects. `server` listens, `request`
validates a call, the handler (`netplugin.pods.handler`) carries it out, `results` builds the reply.
"""
