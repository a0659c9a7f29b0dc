"""The desired state of a bridge, its networks, VRFs and ports, and the guarded addresses. Pure."""
