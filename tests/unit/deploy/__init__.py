"""What `deploy/` has: units, settings, examples, alerts and the dashboard."""
