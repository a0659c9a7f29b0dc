"""Tests of netctl's commands."""
