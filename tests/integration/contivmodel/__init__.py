"""The REST clients against servers on loopback."""
