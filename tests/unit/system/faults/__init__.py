"""The pure parts of the fault suite."""
