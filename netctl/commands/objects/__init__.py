"""The commands for the objects of the API, and what they share."""
