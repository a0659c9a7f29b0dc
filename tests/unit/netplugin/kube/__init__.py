"""Services of Kubernetes."""
