"""An etcd with TLS or with users, and the certificates for it (made by openssl)."""

import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from aetcd import rpc

from objdb.access import Access, Credentials, Tls
from objdb.etcd import EtcdBackend
from tests.bed.daemon import Daemon
from tests.bed.netns import free_port

ROOT_USER = Credentials(user="root", password="root-secret")
USER = Credentials(user="contiv", password="secret")


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


def client(endpoint: str, **access: Any) -> EtcdBackend:
    """Return a client that gives up soon."""
    return EtcdBackend(Access(endpoints=(endpoint,), **access), budget=2.0)


def _read_write(start: str) -> Any:
    end = start[:-1] + chr(ord(start[-1]) + 1)
    return rpc.Permission(
        permType=rpc.Permission.READWRITE, key=start.encode(), range_end=end.encode()
    )


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
