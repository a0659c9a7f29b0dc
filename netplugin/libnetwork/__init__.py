"""Docker's remote network driver and IPAM driver (libnetwork), and what follows the engine.

`server` answers the engine's calls: `calls` reads them, `endpoints` and `pools` carry them out by
the same path as CNI's (`netplugin.pods`); `swarm` those of a swarm's manager. `sync` follows the
engine: its networks (`docknets`), the labels of its containers (`containers`), and the endpoints it
forgot (`endpoint_check`).
"""
