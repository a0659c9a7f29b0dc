"""The composition root: builds an agent from its settings, runs it, and stops it.

In come `netplugin.settings.Settings`; out comes a running agent. `daemon` names the step of each
module: `clients` opens the connections to the outside (store, OVSDB, kernel), `dataplane`,
`host_services` and `pod_services` build the parts and wire them, `resync` brings bridges and pods
to what the store says before anything is served, `servers` opens CNI, REST and RPC. `context` is
what all steps share, `cluster_settings` what the cluster's own settings override, `inspect` the
REST handlers. The only package besides `netplugin.commands` that knows all others.
"""
