"""Following an API server of Kubernetes."""
