"""The pure parts of the test bed."""
