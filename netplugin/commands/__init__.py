"""The commands `netplugin preflight` and `netplugin cleanup`.

In come the daemon's own settings; out comes a report or a host without the agent's objects.
`preflight` runs the checks (`store_checks` has those that ask the store, `underlay_checks` that of
the tunnels' bridge), each of which yields a finding of `findings`; `cleanup` removes the objects
that an agent created on this host.
"""
