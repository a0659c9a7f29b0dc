"""Stores with TLS, with users or with tokens, and the certificates for them (made by openssl)."""

import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from aetcd import rpc

from objdb.access import Access, Credentials, Tls
from objdb.api import Backend
from objdb.consul import ConsulBackend
from objdb.etcd import EtcdBackend
from tests.bed.consul import Consul
from tests.bed.daemon import Daemon
from tests.bed.netns import free_port

ROOT_USER = Credentials(user="root", password="root-secret")
USER = Credentials(user="contiv", password="secret")
ROOT = "11111111-1111-1111-1111-111111111111"
TOKEN = "22222222-2222-2222-2222-222222222222"


class SecuredEtcd(Daemon):
    """One etcd server that asks something of its clients."""

    def __init__(self, directory: Path, *flags: str, scheme: str = "http") -> None:
        self.port = free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{free_port()}"
        url = f"{scheme}://{self.endpoint}"
        super().__init__(
            [
                *("etcd", "--name", "bed", "--data-dir", directory / "etcd"),
                *("--listen-client-urls", url, "--advertise-client-urls", url),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"bed={peer}", *flags),
            ],
            log=directory / "etcd.log",
            ready=self._listens,
        )

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False


class SecuredConsul(Consul):
    """One consul server that asks something of its clients."""

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"{self.address}:{self.port}"


Secured = SecuredEtcd | SecuredConsul


def with_tls(kind: str, directory: Path) -> Secured:
    """Return a store that demands a certificate, made with those of a directory."""
    files = {name: str(directory / name) for name in ("ca.pem", "server.pem", "server.key")}
    if kind == "etcd":
        return SecuredEtcd(
            directory,
            *("--cert-file", files["server.pem"], "--key-file", files["server.key"]),
            *("--client-cert-auth", "--trusted-ca-file", files["ca.pem"]),
            scheme="https",
        )
    own = ssl.create_default_context(cafile=files["ca.pem"])
    own.load_cert_chain(directory / "client.pem", directory / "client.key")
    settings = {
        "verify_incoming_https": True,
        "ca_file": files["ca.pem"],
        "cert_file": files["server.pem"],
        "key_file": files["server.key"],
    }
    return SecuredConsul(directory, settings=settings, tls=own)


def with_acl(directory: Path, rules: str) -> SecuredConsul:
    """Start a consul that denies everything but what `rules` grant to TOKEN."""
    acl = {"enabled": True, "default_policy": "deny", "tokens": {"master": ROOT, "agent": ROOT}}
    consul = SecuredConsul(directory, settings={"acl": acl}, token=ROOT)
    consul.start()
    made = [
        consul.request("PUT", "/v1/acl/policy", {"Name": "own", "Rules": rules}),
        consul.request("PUT", "/v1/acl/token", {"SecretID": TOKEN, "Policies": [{"Name": "own"}]}),
    ]
    if any(status != 200 for status, _, _ in made):
        consul.kill()
        raise RuntimeError(f"consul: {made}")
    return consul


def make_certificates(directory: Path) -> None:
    """Make `ca`, and `server` and `client` signed by it, and `other`, a stranger's authority."""
    for name in ("ca", "other"):
        _openssl(
            directory,
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"),
        )
    for name in ("server", "client"):
        _openssl(
            directory,
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"),
        )
        (directory / "ext").write_text(
            "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        _openssl(
            directory,
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-out", f"{name}.pem", "-extfile", "ext", "-days", "2"),
        )


def tls(directory: Path, *, ca: str = "ca", own: str | None = "client") -> Tls:
    """Return the files of a directory as a client uses them."""
    return Tls(
        ca=(directory / f"{ca}.pem").read_bytes(),
        cert=(directory / f"{own}.pem").read_bytes() if own else None,
        key=(directory / f"{own}.key").read_bytes() if own else None,
    )


def enable_users(endpoint: str, prefix: str) -> None:
    """Give USER the keys under a prefix and under the commits, and ask for a user from now on."""
    with grpc.insecure_channel(endpoint) as channel:
        auth = rpc.AuthStub(channel)
        auth.RoleAdd(rpc.AuthRoleAddRequest(name="root"))
        for user in (ROOT_USER, USER):
            auth.UserAdd(rpc.AuthUserAddRequest(name=user.user, password=user.password))
        auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="root", role="root"))
        auth.RoleAdd(rpc.AuthRoleAddRequest(name="own"))
        for start in (prefix, "/contiv.io/commit/"):
            auth.RoleGrantPermission(
                rpc.AuthRoleGrantPermissionRequest(name="own", perm=_read_write(start))
            )
        auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=USER.user, role="own"))
        auth.AuthEnable(rpc.AuthEnableRequest())


def client(secured: Secured, **access: Any) -> Backend:
    """Return a client that gives up soon."""
    backend = EtcdBackend if isinstance(secured, SecuredEtcd) else ConsulBackend
    return backend(Access(endpoints=(secured.endpoint,), **access), budget=2.0)


def _read_write(start: str) -> Any:
    end = start[:-1] + chr(ord(start[-1]) + 1)
    return rpc.Permission(
        permType=rpc.Permission.READWRITE, key=start.encode(), range_end=end.encode()
    )


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
