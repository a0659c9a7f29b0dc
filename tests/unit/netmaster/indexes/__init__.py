"""Tests of the view's indexes."""
