"""A real Kubernetes on this machine, and the daemons in its pods, as an operator installs them.

`node` is a machine, `control_plane` the API server and what belongs to it, `cluster` both;
`images` makes images without a registry. `kubernetes` has the cases, `installs` those of further
installations: `make e2e-k8s`.
"""
