"""The names that the cluster's DNS answers for: endpoints, and services of Kubernetes. Pure."""
