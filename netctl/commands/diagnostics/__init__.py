"""The commands that look for faults: packets, traces, self-tests, bundles."""
