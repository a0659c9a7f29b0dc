"""The client of Kubernetes in processes."""
