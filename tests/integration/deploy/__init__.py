"""What is deployed, by the programs that read it."""
