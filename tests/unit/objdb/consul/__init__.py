"""Tests of `objdb.consul` without a consul."""
