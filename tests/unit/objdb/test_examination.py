"""The diagnosis of a member's answer: usable, not up yet, or misconfigured."""

import pytest

from core.errors import StoreDenied, StoreUnavailable
from objdb.examination import CONSUL, ETCD, StoreProduct

OK = "HTTP/1.0 200 OK"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ETCD, b'{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}'),
        (ETCD, b'{"etcdserver":"3.10.0"}'),
        (CONSUL, b'"127.0.0.1:8300"'),
        (CONSUL, b'"[::1]:8300"\n'),
    ],
)
def test_a_member_that_is_all_right(kind: StoreProduct, body: bytes) -> None:
    kind.check("a:1", OK, body)


def test_a_consul_without_a_leader_is_waited_for() -> None:
    with pytest.raises(StoreUnavailable, match="a:1: its servers have no leader"):
        CONSUL.check("a:1", OK, b'""')


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (ETCD, b'{"etcdserver":"3.2.9"}', "a:1 is etcd 3.2.9: run etcd 3.4 or later"),
        (ETCD, b'"127.0.0.1:8300"', "a:1 is no etcd: it answered 'HTTP/1.0 200 OK'"),
        (ETCD, b"", "is no etcd"),
        (CONSUL, b'{"etcdserver":"3.4.23"}', "a:1 is no consul: it answered 'HTTP/1.0 200 OK'"),
        (CONSUL, b'"hello"', "is no consul"),
        (CONSUL, b"hello", "is no consul"),
        (CONSUL, b"\xff", "is no consul"),
        (CONSUL, b"", "is no consul"),
    ],
)
def test_a_member_of_no_use(kind: StoreProduct, body: bytes, said: str) -> None:
    with pytest.raises(StoreDenied, match=said):
        kind.check("a:1", OK, body)
