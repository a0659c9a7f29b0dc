"""Tests of netmaster.api.v1."""
