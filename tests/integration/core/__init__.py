"""core on real sockets."""
