"""Unit tests of `netplugin/world/kube_policies`, path for path."""
