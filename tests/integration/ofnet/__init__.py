"""Tests of the OpenFlow layer against a real Open vSwitch."""
