"""The CNI binary: `contivk8s/main.py`, one file that needs the standard library alone."""
