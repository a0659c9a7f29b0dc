"""Code of both daemons: Go's flag grammar, the host address, memory, TLS, HTTP.

`program` runs a daemon's command line; `flags` reads it. `collector` and `memory` limit what a
daemon holds without using it. `certificates.tls` makes the contexts of connections,
`certificates.peers` says what the peer of one may do, `certificates.tls_faults` why a handshake
failed. `http` listens for the HTTP servers, behind limits of connections, `listen_address` names
where. Above `core`, below all packages that are configured by flags.
"""
