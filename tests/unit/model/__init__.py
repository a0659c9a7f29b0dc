"""The models that tests compare with are held to known answers."""
