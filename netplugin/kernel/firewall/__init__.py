"""Firewalls: the agent's own rules in iptables or nftables, and those of other programs."""
