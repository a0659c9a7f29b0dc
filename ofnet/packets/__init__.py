"""Packets that the agent answers or sends itself: ARP, DNS, gratuitous ARPs."""
