"""Calls of container runtimes, recorded, and the means to record them."""
