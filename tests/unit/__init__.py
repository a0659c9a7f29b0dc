"""No I/O; mirrors the tree."""
