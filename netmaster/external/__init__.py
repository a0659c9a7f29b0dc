"""What lies outside of the store: Docker's networks, the ACI gateway, changes that need them."""
