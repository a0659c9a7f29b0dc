"""The host's uplink, and the reconciler of uplink and tunnel ports."""
