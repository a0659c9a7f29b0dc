"""Tests of netctl.commands.diagnostics."""
