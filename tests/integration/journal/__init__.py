"""The journal on a real file system."""
