"""`objdb` against a real etcd that is killed, frozen and compacted."""
