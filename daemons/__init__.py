"""Code of both daemons: Go's flag grammar, the host address, the garbage collector, TLS.

Takes the command line and the environment, returns checked values. `tls` makes the contexts of
connections, `peers` says what the peer of one may do, `tls_faults` why a handshake failed. Above
`core`, below all packages that are configured by flags.
"""
