"""Traces by W3C Trace Context: which one work is of, and its spans."""
