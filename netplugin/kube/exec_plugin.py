"""Gets credentials for the API servers from a program that a kubeconfig names, as kubectl does.

Clusters of clouds have no lasting tokens: the user of their kubeconfig has an `exec` member, whose
program prints an `ExecCredential` of `client.authentication.k8s.io`. The program is run when a
request needs credentials and those at hand are about to expire or were refused, for all requests
at once, and without a terminal. What it prints is never in a log.
"""

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from core.errors import OrchestratorUnavailable
from core.outside_json import read_json
from core.patience import patient
from netplugin.kube.api_access import Issued

LIMIT: Final = patient(30.0)
"""Time limit in seconds of one run."""

LARGEST: Final = 1024 * 1024
"""Bytes that are read of what a program prints."""

PAUSE: Final = 5.0
"""Seconds after the end of a run before which there is no other: whatever it brought holds."""

EARLY: Final = 10.0
"""Seconds before the end of credentials at which others are asked for."""

COMPLAINT: Final = 300
"""Characters of what a failed program says of itself that are shown."""

_PEM: Final = r"^(-----BEGIN [\s\S]*)?$"


class _Status(BaseModel):
    # errors of pydantic quote the input, here tokens and keys
    model_config = ConfigDict(hide_input_in_errors=True)

    token: str = Field("", pattern=r"^[!-~]*$")
    cert: str = Field("", alias="clientCertificateData", pattern=_PEM)
    key: str = Field("", alias="clientKeyData", pattern=_PEM)
    expires: AwareDatetime | None = Field(None, alias="expirationTimestamp")


class _Answer(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    version: str = Field(alias="apiVersion")
    kind: Literal["ExecCredential"]
    status: _Status


class _Run(asyncio.SubprocessProtocol):
    """What a program writes, by descriptor, `LARGEST` bytes of it at most.

    `exited` is its own end, `ended` also that of all who may write in its place.
    """

    def __init__(self) -> None:
        self.written = {1: bytearray(), 2: bytearray()}
        self.exited, self.ended = asyncio.Event(), asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.written[fd] += data[: LARGEST - len(self.written[fd])]

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.ended.set()


@dataclass(kw_only=True)
class ExecPlugin:
    """One program, and what it said last; `clock` is that of the wall, in seconds."""

    version: str
    """The `apiVersion` that is spoken with it."""

    command: str
    """A path, or a name that is looked up in PATH."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it gets besides the agent's own environment."""

    hint: str = ""
    """How to install it, from the kubeconfig."""

    cluster: Mapping[str, Any] | None = None
    """What it is told of the cluster, if it wants that."""

    clock: Callable[[], float] = lambda: datetime.now(UTC).timestamp()
    limit: float = LIMIT
    pause: float = PAUSE
    _said: Issued | None = field(default=None, init=False)
    _fault: str = field(default="", init=False)
    _refused: bool = field(default=False, init=False)
    _ended: float = field(default=float("-inf"), init=False)
    _running: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def name(self) -> str:
        """What issues, in words."""
        return f"the program {self.command}"

    async def issued(self) -> Issued:
        """Return credentials that hold now. Raises OrchestratorUnavailable."""
        async with self._running:
            recent = time.monotonic() - self._ended < self.pause
            if not recent and (self._said is None or self._refused or self._expired(self._said)):
                await self._renew()
            if self._said is None:
                raise OrchestratorUnavailable(self._fault)
            return self._said

    def refused(self, used: Issued) -> bool:
        """Note that a server refused credentials; return whether there are or will be others."""
        if used is self._said:
            self._refused = True
            return time.monotonic() - self._ended >= self.pause
        return True

    def _expired(self, said: Issued) -> bool:
        return said.expires is not None and self.clock() >= said.expires - EARLY

    async def _renew(self) -> None:
        self._said, self._refused = None, False
        try:
            self._said = read(await self._run(), self.version)
        except (OSError, ValueError, TimeoutError) as exc:
            reason = f"no answer within {self.limit:g} s" if isinstance(exc, TimeoutError) else exc
            hint = f": {self.hint}" if self.hint else ""
            self._fault = f"no credentials for Kubernetes: {self.name}: {reason}{hint}"
        self._ended = time.monotonic()

    async def _run(self) -> bytes:
        """Return what the program prints. Raises OSError, ValueError or TimeoutError."""
        given = os.environ | self.environment | {"KUBERNETES_EXEC_INFO": self._told()}
        if (program := shutil.which(self.command, path=given.get("PATH"))) is None:
            raise ValueError("is not there, or is not executable")
        # not `asyncio.subprocess`: its readers pause, and then the end of a process is never seen
        transport, run = await asyncio.get_running_loop().subprocess_exec(
            _Run,
            program,
            *self.arguments,
            env=given,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # what it starts ends with it
        )
        try:
            async with asyncio.timeout(self.limit):
                await run.ended.wait()
        finally:
            if not run.ended.is_set():
                with suppress(ProcessLookupError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
            await run.exited.wait()
            transport.close()
        if status := transport.get_returncode():
            text = " ".join(run.written[2].decode("utf-8", "replace").split())
            raise ValueError(f"ended with status {status}: {text[-COMPLAINT:]}")
        return bytes(run.written[1])

    def _told(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        return json.dumps({"apiVersion": self.version, "kind": "ExecCredential", "spec": spec})


def plugin_of(named: Mapping[str, Any], directory: Path, cluster: Mapping[str, Any]) -> ExecPlugin:
    """Return the plugin of the `exec` member of a kubeconfig's user. Raises ValueError.

    A command with a slash is relative to the kubeconfig's directory.
    """
    member = _Exec.model_validate(named)
    command = str(directory / member.command) if "/" in member.command else member.command
    return ExecPlugin(
        version=member.version,
        command=command,
        arguments=tuple(member.arguments or ()),
        environment={one.name: one.value for one in member.environment or ()},
        hint=" ".join((member.hint or "").split()),
        cluster=_told_of(cluster) if member.tell_cluster else None,
    )


class _Variable(BaseModel):
    name: str = Field(pattern="^[^=]+$")
    value: str


class _Exec(BaseModel):
    version: Literal["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"] = (
        Field(alias="apiVersion")
    )
    command: str = Field(min_length=1)
    arguments: list[str] | None = Field(None, alias="args")
    environment: list[_Variable] | None = Field(None, alias="env")
    hint: str | None = Field(None, alias="installHint")
    tell_cluster: bool = Field(default=False, alias="provideClusterInfo")
    # `Always` needs a terminal, which a daemon has not
    mode: Literal["Never", "IfAvailable"] = Field("IfAvailable", alias="interactiveMode")


def _told_of(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `spec.cluster` says: the server, how it is verified, and the plugin's own."""
    known = ("server", "tls-server-name", "certificate-authority-data", "proxy-url")
    told = {name: cluster[name] for name in known if name in cluster}
    for one in cluster.get("extensions") or ():
        if one["name"] == "client.authentication.k8s.io/exec":
            told["config"] = one["extension"]
    return told


def read(said: bytes, version: str) -> Issued:
    """Return the credentials of an `ExecCredential` of a version. Raises ValueError."""
    try:
        answer = _Answer.model_validate(read_json(said))
    except ValidationError as exc:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in exc.errors())
        raise ValueError(f"prints no ExecCredential: {wrong}") from None
    except ValueError:
        raise ValueError("prints no JSON") from None
    if answer.version != version:
        raise ValueError(f"prints an ExecCredential of {answer.version[:80]!r}, not of {version}")
    held = answer.status
    if bool(held.cert) != bool(held.key) or not (held.token or held.cert):
        raise ValueError("prints neither a token nor a certificate with its key")
    expires = held.expires.timestamp() if held.expires is not None else None
    return Issued(token=held.token, cert=held.cert, key=held.key, expires=expires)
