"""Certificates and TLS: requests, files, peers' identities, contexts, faults."""
