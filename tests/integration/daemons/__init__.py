"""What both daemons share, as processes."""
