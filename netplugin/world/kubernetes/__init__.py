"""Objects of Kubernetes as this agent reads them: pods, services, network policies. Pure."""
