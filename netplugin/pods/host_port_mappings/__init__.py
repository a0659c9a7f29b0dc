"""Host ports of pods: the rules in iptables, and what keeps them."""
