"""The tests, by place in the pyramid."""
