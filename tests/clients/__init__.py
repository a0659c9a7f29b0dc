"""Clients that are generated from the OpenAPI document, at work: `make clients-check`."""
