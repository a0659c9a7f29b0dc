"""Start-up code of both daemons: Go's flag grammar, the host address, the garbage collector.

Takes the command line and the environment, returns checked values. Above `core`, below all packages
that are configured by flags.
"""
