"""The server for Mesos: requests, answers, links."""
