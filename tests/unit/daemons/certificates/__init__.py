"""Unit tests of `daemons/certificates`, path for path."""
