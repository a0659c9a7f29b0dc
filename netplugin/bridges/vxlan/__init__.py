"""Tunnels to other hosts: their ports, the MACs of next hops, probes, path MTU."""
