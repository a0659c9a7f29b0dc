"""What both daemons start with: Go's flag grammar, the host's address, the garbage collector.

In come command line and environment; out come checked values. Above `core`, below everything that
is configured by flags.
"""
