"""Allocation of addresses, tags and group ids: what is free, and which comes next. Pure."""
