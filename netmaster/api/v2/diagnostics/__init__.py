"""Questions about the network that the agents answer, and which groups may reach each other."""
