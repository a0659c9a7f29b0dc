"""Tests of netmaster.api.http."""
