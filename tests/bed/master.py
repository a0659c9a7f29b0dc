"""A netmaster process: its own ports, on loopback or in a namespace, and a given store.

In come a directory and a store; out comes `url` once the master leads (or, for a second one,
once it follows). Used by replays and by tests of several masters.
"""

import http.client
import json
import re
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bed.daemon import AT_ONCE, Daemon
from tests.bed.identities import Identities
from tests.bed.netns import Namespace, answers, free_port
from tests.bed.store import Reached

PROGRAM = Path(sys.executable).with_name("netmaster")
MODES = ("--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing")


@dataclass(frozen=True)
class Answer:
    """What an HTTP request got."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The first line of the body."""
        return self.body.decode().partition("\n")[0]

    def json(self) -> object:
        """Return the body as data."""
        return json.loads(self.body)


def is_unknown(answer: Answer) -> bool:
    """Whether a master has said that it does not know what became of a change."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    if headers.get("contiv-outcome") != "unknown":
        return False
    assert answer.status == 500
    assert answer.text.startswith("outcome unknown: ")
    return True


def assert_not_done(answer: Answer) -> None:
    """Fail unless a leader that is one no more has said so, or what its successor has changed."""
    assert answer.status == 500
    assert re.match(
        "Leader not found$|not done, since .* was changed by another writer", answer.text
    )


class Master(Daemon):
    """One netmaster. `leads=False` waits only until it answers at all.

    With `identities` it speaks TLS: as "master", to "admin".
    """

    def __init__(
        self,
        directory: Path,
        store: Reached,
        *,
        name: str = "netmaster",
        leads: bool = True,
        flags: tuple[str, ...] = MODES,
        namespace: Namespace | None = None,
        host: str = "127.0.0.1",
        identities: Identities | None = None,
    ) -> None:
        self.host = host
        self.port = free_port(namespace, host)
        self.address = f"{host}:{self.port}"
        self.url = f"{'https' if identities else 'http'}://{self.address}"
        self._identities = identities
        tls = identities.flags("master") if identities else []
        leader = f'"leader-ip":"{self.address}"'.encode() if leads else b""
        super().__init__(
            [
                *(str(PROGRAM), *flags, f"--{store.kind}", store.url, "--ofnet-port", "0"),
                *tls,
                *("--external-address", self.address, "--internal-address", self.address),
            ],
            log=directory / f"{name}.log",
            namespace=namespace,
            env=AT_ONCE,
            ready=lambda: answers(
                f"{self.url}/info", namespace=namespace, text=leader, context=self.context()
            ),
        )

    def context(self, name: str = "admin") -> ssl.SSLContext | None:
        """Return the context of a client with an identity; None without TLS."""
        return self._identities.context(name) if self._identities else None

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; a body that is not text or bytes is sent as JSON."""
        context = self.context()
        connection = (
            http.client.HTTPSConnection(self.host, self.port, timeout=60, context=context)
            if context
            else http.client.HTTPConnection(self.host, self.port, timeout=60)
        )
        try:
            if self.namespace is not None:
                self.namespace.call(connection.connect)
            payload = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
            sent = {"Content-Type": "application/json"} if headers is None else dict(headers)
            connection.request(method, path, payload, sent)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()
