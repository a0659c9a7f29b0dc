"""Links of the host and of pods."""
