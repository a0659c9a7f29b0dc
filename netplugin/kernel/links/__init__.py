"""Links and addresses of this host and of pods, and the network namespaces they are in."""
