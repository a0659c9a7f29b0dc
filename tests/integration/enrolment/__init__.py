"""Certificates of an installation on Kubernetes, by a stand-in for its API server."""
