"""Contiv's own policies and rules, for this host's switches. Pure."""
