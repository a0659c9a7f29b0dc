"""`objdb.connect`: store addresses on the command line."""

from pathlib import Path

import pytest

from core.errors import UsageError
from objdb.access import StoreAccess, Tls
from objdb.connect import (
    StoreAddress,
    StoreKind,
    connect,
    consul_access,
    parse_endpoints,
    parse_store_url,
)
from objdb.consul import ConsulBackend
from objdb.etcd import EtcdBackend


def etcd(*members: str, secure: bool = False) -> StoreAddress:
    return StoreAddress(StoreKind.ETCD, members, secure)


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("", etcd("127.0.0.1:2379")),
        ("http://10.0.0.1:2379", etcd("10.0.0.1:2379")),
        ("etcd://a:1, http://b:2 ,,http://a:1/", etcd("a:1", "b:2")),
        ("https://a:1,https://[fe80::1]:2", etcd("a:1", "[fe80::1]:2", secure=True)),
    ],
)
def test_all_endpoints_of_the_list_are_used(text: str, store: StoreAddress) -> None:
    assert parse_endpoints("netmaster", text, "") == store


@pytest.mark.parametrize(
    ("etcd_text", "consul_text", "message"),
    [
        (
            "http://x:1",
            "http://y:2",
            "endpoints, both etcd and consul specified: etcd: http://x:1, consul: http://y:2",
        ),
        (",", "", "invalid netmaster etcd endpoints: empty"),
        ("", ", ", "invalid netmaster consul endpoints: empty"),
        ("http://x", "", "invalid netmaster etcd endpoint: http://x: want host:port"),
        ("http://x:port", "", "invalid netmaster etcd endpoint: http://x:port: "),
        ("http://x:99999", "", "invalid netmaster etcd endpoint: "),
        ("http://[::1:1", "", "invalid netmaster etcd endpoint: "),
        ("consul://x:1", "", "invalid netmaster etcd endpoint: consul://x:1: want etcd://"),
        ("x:1", "", "invalid netmaster etcd endpoint: x:1: want etcd://"),
        ("http://x:1/path", "", "invalid netmaster etcd endpoint: http://x:1/path: want"),
        ("http://x:1,https://y:1", "", "either all with TLS or none"),
    ],
)
def test_unusable_endpoints_are_refused(etcd_text: str, consul_text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_endpoints("netmaster", etcd_text, consul_text)
    assert message in str(caught.value)


def test_the_older_store_url() -> None:
    assert parse_store_url("etcd://h:2379") == etcd("h:2379")
    assert parse_store_url("consul://h:8500").kind is StoreKind.CONSUL
    with pytest.raises(UsageError, match='Invalid state-store URL "h:2379"'):
        parse_store_url("h:2379")
    with pytest.raises(UsageError, match='Unsupported state-store "zk"'):
        parse_store_url("zk://h:1")
    with pytest.raises(UsageError, match="want host:port"):
        parse_store_url("etcd://")


async def test_connect_makes_a_client_without_asking_the_store() -> None:
    backend = connect(etcd("127.0.0.1:1"))
    assert isinstance(backend, EtcdBackend)
    await backend.close()


async def test_consul_is_reached_as_its_own_variables_say(tmp_path: Path) -> None:
    plain = parse_endpoints("netplugin", "", "http://a:8500,b:8501".replace("b:", "consul://b:"))
    backend = connect(plain, environ={})
    assert isinstance(backend, ConsulBackend)
    await backend.close()
    token = {"CONSUL_HTTP_TOKEN": "secret"}
    assert consul_access(plain, token) == StoreAccess(
        endpoints=("a:8500", "b:8501"), token="secret"
    )
    (tmp_path / "ca").write_bytes(b"ca")
    secure = parse_endpoints("netplugin", "", "https://a:8501")
    access = consul_access(secure, {"CONSUL_CACERT": str(tmp_path / "ca")})
    assert access == StoreAccess(endpoints=("a:8501",), tls=Tls(ca=b"ca"))
    assert consul_access(secure, {}).tls == Tls()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"CONSUL_CACERT": "none"}, "CONSUL_CACERT: .*No such file"),
        ({"CONSUL_CLIENT_KEY": "some"}, "go together or not at all"),
        ({"CONSUL_CACERT": "some"}, "cannot be used"),
        ({"CONSUL_CLIENT_CERT": "some", "CONSUL_CLIENT_KEY": "some"}, "cannot be used"),
    ],
)
async def test_certificates_that_cannot_be_used_are_named(
    tmp_path: Path, named: dict[str, str], message: str
) -> None:
    (tmp_path / "some").write_text("no certificate")
    environ = {name: str(tmp_path / path) for name, path in named.items()}
    with pytest.raises(UsageError, match=message):
        connect(parse_endpoints("netplugin", "", "https://a:8501"), environ=environ)


def test_an_address_reads_as_the_user_wrote_it() -> None:
    assert str(etcd("a:1", "b:2")) == "etcd: http://a:1,http://b:2"
