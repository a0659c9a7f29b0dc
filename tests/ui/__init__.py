"""The user interface in a real browser: `make ui-check`."""
