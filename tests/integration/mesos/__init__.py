"""`netcontiv` and the server for Mesos, together."""
