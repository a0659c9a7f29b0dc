"""Unit tests of the etcd backend that need no etcd."""
