"""The door to the switch's database, without a database."""
