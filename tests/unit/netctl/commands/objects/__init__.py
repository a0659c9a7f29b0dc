"""Tests of netctl.commands.objects."""
