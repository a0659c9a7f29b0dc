"""One suite over every store backend."""
