"""API v2, for programs (ADR 25): one set of handlers for all classes of objects, and watches.

`diagnostics` has the questions that all hosts are asked, `events` the watches.
"""
