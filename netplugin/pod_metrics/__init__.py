"""Numbers of each pod of this host for its metrics: what it sends and receives, what is dropped."""
