"""`objdb.consul`: what needs no consul."""
