"""Netlink: requests that change the kernel, and the events it sends."""
