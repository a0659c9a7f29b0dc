"""An etcd with TLS or with users, and the certificates for it (made by openssl)."""

import subprocess
from pathlib import Path
from typing import Any

from objdb.access import Access, Credentials, Tls
from objdb.etcd import EtcdBackend
from tests.bed.etcd import Etcd
from tests.bed.netns import Namespace

ROOT_USER = Credentials(user="root", password="root-secret")
USER = Credentials(user="contiv", password="secret")
PASSWORD_FILE = "password"


class SecuredEtcd(Etcd):
    """One etcd server that asks something of its clients; its files are in `directory`."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        scheme: str = "http",
        namespace: Namespace | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__(directory, namespace, address, port)
        self.directory = directory
        self.endpoint = f"{self.address}:{self.port}"
        plain, self.url = self.url, f"{scheme}://{self.endpoint}"
        self.command = [self.url if word == plain else word for word in self.command]
        self.command += flags
        self._ready = lambda: self.ctl("endpoint", "health", check=False)

    def ctl(self, *words: str, check: bool = True) -> bool:
        """Run etcdctl; whether it succeeded. Before users are asked for, it may do everything."""
        command = ["etcdctl", "--endpoints", self.url, "--command-timeout", "2s"]
        if self.url.startswith("https"):
            command += ["--cacert", "ca.pem", "--cert", "client.pem", "--key", "client.key"]
        enter = self.namespace.enter if self.namespace else []
        done = subprocess.run(
            [*enter, "env", "ETCDCTL_API=3", *command, *words],
            cwd=self.directory,
            check=check,
            capture_output=True,
        )
        return done.returncode == 0

    def enable_users(self, *prefixes: str) -> None:
        """Give USER the keys under prefixes, and ask for a user from now on."""
        for user in (ROOT_USER, USER):
            self.ctl("user", "add", f"{user.user}:{user.password}")
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("role", "add", "own")
        for prefix in prefixes:
            self.ctl("role", "grant-permission", "own", "--prefix=true", "readwrite", prefix)
        self.ctl("user", "grant-role", USER.user, "own")
        self.ctl("auth", "enable")


def tls_flags(directory: Path) -> tuple[str, ...]:
    """Return the flags of an etcd that speaks TLS and asks clients for a certificate."""
    return (
        *(
            "--cert-file",
            str(directory / "server.pem"),
            "--key-file",
            str(directory / "server.key"),
        ),
        *("--client-cert-auth", "--trusted-ca-file", str(directory / "ca.pem")),
    )


def identity_flags(directory: Path) -> tuple[str, ...]:
    """Return a daemon's flags for an etcd with TLS and users; the password is in its file."""
    (directory / PASSWORD_FILE).write_text(f"{USER.password}\n")
    return (
        *("--store-ca", str(directory / "ca.pem"), "--store-cert", str(directory / "client.pem")),
        *("--store-key", str(directory / "client.key"), "--store-user", USER.user),
        *("--store-password-file", str(directory / PASSWORD_FILE)),
    )


def make_certificates(directory: Path, *addresses: str) -> None:
    """Make `ca`, and `server` and `client` signed by it, and `other`, a stranger's authority."""
    for name in ("ca", "other"):
        _openssl(
            directory,
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"),
        )
    named = ",".join(f"IP:{address}" for address in ("127.0.0.1", *addresses))
    for name in ("server", "client"):
        _openssl(
            directory,
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"),
        )
        (directory / "ext").write_text(
            f"subjectAltName={named}\nextendedKeyUsage=serverAuth,clientAuth\n"
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


def client(endpoint: str, **access: Any) -> EtcdBackend:
    """Return a client that gives up soon."""
    return EtcdBackend(Access(endpoints=(endpoint,), **access), budget=2.0)


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
