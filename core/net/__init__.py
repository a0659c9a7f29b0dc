"""Listeners: limits of their connections, TLS policy, unix sockets."""
