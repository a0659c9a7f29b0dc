"""Masters and stores that die, freeze and lose each other, and whether anybody was lied to."""
