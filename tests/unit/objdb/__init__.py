"""Tests of `objdb` without a store of its own."""
