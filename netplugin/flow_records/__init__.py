"""Records of every connection that this host's switch forwards or drops, with names (ADR 48)."""
