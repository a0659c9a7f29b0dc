"""netctl as a program: on a terminal, against servers on loopback, asked by shells."""
