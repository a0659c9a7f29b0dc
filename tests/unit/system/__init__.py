"""The pure parts of the system tests."""
