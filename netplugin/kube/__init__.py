"""What the agent knows of Kubernetes: its services, and who serves them."""
