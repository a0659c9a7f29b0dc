"""The test bed: simulated hosts in network namespaces, real etcd and Open vSwitch."""
