"""Packets that this host sends and receives by sockets: ARP, ICMP, heartbeats."""
