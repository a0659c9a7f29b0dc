"""Stores that ask something of their clients: etcd with TLS or users, consul with TLS or tokens.

The certificates are those of `tests.bed.certificates`, in the directory of the store.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from core.net import tls_trust
from objdb.access import StoreAccess, StoreCredentials
from objdb.api import Backend
from objdb.consul import ConsulBackend
from objdb.etcd import EtcdBackend
from tests.bed.consul import Consul
from tests.bed.etcd import Etcd
from tests.bed.netns import Namespace

ROOT_USER = StoreCredentials(user="root", password="root-secret")
USER = StoreCredentials(user="contiv", password="secret")
PASSWORD_FILE = "password"
ROOT_TOKEN = "11111111-1111-1111-1111-111111111111"
TOKEN = "22222222-2222-2222-2222-222222222222"


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
        self._ready = lambda: self.as_root("endpoint", "health", check=False)

    def as_root(self, *words: str, check: bool = True) -> bool:
        """Run etcdctl as an administrator does once users are asked for."""
        return self.ctl("--user", f"{ROOT_USER.user}:{ROOT_USER.password}", *words, check=check)

    def run_commands(self, commands: Iterable[Sequence[str]], password: str) -> None:
        """Run commands of etcdctl as an administrator does, then ask for a user.

        New users get the password.
        """
        self.ctl("user", "add", f"{ROOT_USER.user}:{ROOT_USER.password}")
        self.ctl("user", "grant-role", "root", "root")
        for _, *words in commands:
            if words[:2] == ["user", "add"]:
                words[2] += f":{password}"
            self.ctl(*words)
        self.ctl("auth", "enable")


class SecuredConsul(Consul):
    """One consul server that asks something of its clients."""

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"{self.address}:{self.port}"


Secured = SecuredEtcd | SecuredConsul


def with_tls(kind: str, directory: Path) -> Secured:
    """Return a store that demands a certificate, made with those of a directory."""
    if kind == "etcd":
        return SecuredEtcd(directory, *tls_flags(directory), scheme="https")
    own = tls_trust.client_context(ca_file=str(directory / "ca.pem"))
    own.load_cert_chain(directory / "client.pem", directory / "client.key")
    settings = {
        "verify_incoming_https": True,
        "ca_file": str(directory / "ca.pem"),
        "cert_file": str(directory / "server.pem"),
        "key_file": str(directory / "server.key"),
    }
    return SecuredConsul(directory, settings=settings, tls=own)


def with_acl(
    directory: Path, rules: str, more: Mapping[str, str] = MappingProxyType({})
) -> SecuredConsul:
    """Start a consul that denies everything but what `rules` grant to TOKEN.

    `more` are the rules of other tokens.
    """
    tokens = {"master": ROOT_TOKEN, "agent": ROOT_TOKEN}
    acl = {"enabled": True, "default_policy": "deny", "tokens": tokens}
    consul = SecuredConsul(directory, settings={"acl": acl}, token=ROOT_TOKEN)
    consul.start()
    made = []
    for number, (token, granted) in enumerate({TOKEN: rules, **more}.items()):
        name = f"own{number}" if number else "own"
        policies = [{"Name": name}]
        made += [
            consul.request("PUT", "/v1/acl/policy", {"Name": name, "Rules": granted}),
            consul.request("PUT", "/v1/acl/token", {"SecretID": token, "Policies": policies}),
        ]
    if any(status != 200 for status, _, _ in made):
        consul.kill()
        raise RuntimeError(f"consul: {made}")
    return consul


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


def jwt_flags(directory: Path) -> tuple[str, ...]:
    """Return the flags of an etcd that gives JWT tokens; makes the key that signs them."""
    key, public = str(directory / "jwt.key"), str(directory / "jwt.pub")
    for words in (("genrsa", "-out", key, "2048"), ("rsa", "-in", key, "-pubout", "-out", public)):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    return ("--auth-token", f"jwt,pub-key={public},priv-key={key},sign-method=RS256,ttl=10m")


def identity_flags(directory: Path, user: str = USER.user) -> tuple[str, ...]:
    """Return a daemon's flags for an etcd with TLS and users; the password is in its file."""
    (directory / PASSWORD_FILE).write_text(f"{USER.password}\n")
    return (
        *("--store-ca", str(directory / "ca.pem"), "--store-cert", str(directory / "client.pem")),
        *("--store-key", str(directory / "client.key"), "--store-user", user),
        *("--store-password-file", str(directory / PASSWORD_FILE)),
    )


def client(secured: Secured, **access: Any) -> Backend:
    """Return a client that gives up soon."""
    backend = EtcdBackend if isinstance(secured, SecuredEtcd) else ConsulBackend
    return backend(StoreAccess(endpoints=(secured.endpoint,), **access), budget=2.0)
