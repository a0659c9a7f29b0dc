"""The test bed in several processes."""
