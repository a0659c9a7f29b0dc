"""The CNI server, without sockets."""
