"""Tests of netmaster.api.v2."""
