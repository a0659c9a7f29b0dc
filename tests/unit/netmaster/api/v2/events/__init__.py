"""Tests of netmaster.api.v2.events."""
