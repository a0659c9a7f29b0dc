"""Unit tests of the HTTP edge."""
