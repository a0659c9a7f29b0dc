"""What this host knows of its endpoints, and what its parts share."""
