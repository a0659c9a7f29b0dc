"""The control channel between masters and agents.

`jsonrpc` is the transport (JSON-RPC 1.0 as Go's net/rpc speaks it), `control` the methods and their
types. Endpoints and policies are not sent here: agents read them from the store.
"""
