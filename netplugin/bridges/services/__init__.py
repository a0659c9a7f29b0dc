"""Services of Kubernetes for the host itself and the outside: rules, health checks, datagrams."""
