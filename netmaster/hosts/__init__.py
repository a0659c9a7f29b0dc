"""The hosts of the cluster: which there are, which claim their pods, and what dead ones leave."""
