"""Tests of netmaster.api.leader."""
