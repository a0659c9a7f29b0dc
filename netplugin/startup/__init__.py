"""The composition root: builds an agent from its settings, runs it, and stops it.

In come `netplugin.settings.Settings`; out comes a running agent. `daemon` runs the steps in order:
`clients` connects to store, OVSDB and kernel, `cluster_settings` waits for netmaster, `dataplane`,
`host_services` and `pod_services` build the parts, `resync` reads store and host and starts the
reconcile loops, `servers` opens CNI, REST and RPC. `context` is what all steps share, `inspect` has
the REST handlers. The only package besides `netplugin.commands` that imports all others.
"""
