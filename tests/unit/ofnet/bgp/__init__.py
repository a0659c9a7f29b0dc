"""BGP, piece by piece."""
