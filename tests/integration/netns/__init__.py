"""The netlink door against a real kernel."""
