"""A cluster that is broken in many ways, and whether one command names each cause."""
