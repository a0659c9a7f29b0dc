"""The database door against a real Open vSwitch."""
