"""The composition root: builds an agent from its settings, runs it, and stops it.

In come `netplugin.settings.AgentSettings`; out comes a running agent. `daemon` runs the steps in
order: `clients` connects to store, OVSDB and kernel, the cluster's settings are waited for,
`dataplane` and the other subsystems (`agent`) are built, `resync` reads store and host, the loops
of all subsystems start, `servers` opens CNI, REST and RPC. A subsystem is built by one function and
says what it runs, looks at, answers and counts (`context.Subsystem`); `context` is what all steps
share, `inspect` has the REST handlers. The only package besides `netplugin.commands` that imports
all others.
"""
