"""Tests of netctl.commands.cluster."""
