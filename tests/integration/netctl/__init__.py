"""netctl as a program: on a terminal, against servers on loopback, called by shells."""
