"""Interfaces, routes and rules of the host itself, by which it and its pods reach each other."""
