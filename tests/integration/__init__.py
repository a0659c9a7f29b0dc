"""Real etcd, Open vSwitch, namespaces."""
