"""TLS contexts of the daemons: mutual verification, and changed files without a restart.

In come the paths of three PEM files; out come `ssl.SSLContext`s for listeners and clients, and the
identity of a connected peer (`daemons.certificates.peers`). `netmaster.commands.ca` writes the
files, `daemons.certificates.tls_faults` explains handshakes that fail.
"""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from core.errors import AgentUnavailable, UsageError
from core.logs import fields
from core.net import tls_trust
from daemons.certificates.peers import PeerIdentity, Role, identity_of, rpc_call_allows
from daemons.flags import Flag, Generation, Values

log = logging.getLogger(__name__)

FLAGS: Final = (
    Flag(
        names=("tls-ca",),
        env="TLS_CA",
        help="file with the certificates of the cluster's authorities; with --tls-cert and "
        "--tls-key: all connections between daemons use TLS",
        generation=Generation.OURS,
    ),
    Flag(
        names=("tls-cert",),
        env="TLS_CERT",
        help="file with the certificate of this daemon",
        generation=Generation.OURS,
    ),
    Flag(
        names=("tls-key",),
        env="TLS_KEY",
        help="file with the key of this daemon's certificate",
        generation=Generation.OURS,
    ),
)


MOST_AGENTS: Final = 4096
"""Hosts whose contexts are kept; each takes some 30 KB, and 2 ms to make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of PEM files: authorities, own certificate (chain), own key. All "" is no TLS."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def __bool__(self) -> bool:
        return bool(self.ca)

    def check(self) -> None:
        """Raise UsageError unless all three or none are named."""
        named = {"--tls-ca": self.ca, "--tls-cert": self.cert, "--tls-key": self.key}
        missing = [flag for flag, path in named.items() if not path]
        if 0 < len(missing) < len(named):
            raise UsageError(
                "--tls-ca, --tls-cert and --tls-key go together: name the file of "
                f"{' and '.join(missing)} as well (`netmaster ca issue` writes all three), or none"
            )


def tls_files(values: Values) -> TlsFiles:
    """Return the files that the flags name. Raises UsageError as `TlsFiles.check`."""
    files = TlsFiles(ca=values["tls-ca"], cert=values["tls-cert"], key=values["tls-key"])
    files.check()
    return files


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context for the client's side of a short-lived program, which asks masters.

    A user who logs in with a password needs no certificate: `files` then names the authorities
    only. Raises UsageError.
    """
    if bool(files.cert) != bool(files.key) or not files.ca:
        raise UsageError("--tls-cert and --tls-key go together, and need --tls-ca")
    try:
        return _client(files, server=Role.MASTER)
    except (OSError, ValueError) as exc:
        raise UsageError(_load_error(files, exc)) from exc


def peer_identity(connection: ssl.SSLObject | ssl.SSLSocket | None) -> PeerIdentity | None:
    """Return the identity of the peer of a connection; None without TLS or a valid certificate."""
    # A resumed session has the certificate of an earlier handshake, which this handshake did not
    # verify: an authority or certificate replaced since then would still be accepted.
    if connection is None or connection.session_reused:
        return None
    return identity_of(connection.getpeercert())


def contexts_of(files: TlsFiles) -> "TlsContexts | None":
    """Return the contexts of a daemon, None without TLS, which is logged. Raises UsageError."""
    if files:
        return TlsContexts(files)
    log.warning(
        "REST and RPC without TLS: whoever reaches their ports controls this daemon, and the "
        "cluster's networks; set --tls-ca, --tls-cert and --tls-key (docs/flags.md)"
    )
    return None


def call_refused(connection: ssl.SSLObject | None, method: str, argument: Any) -> str:
    """Return why the peer of an RPC connection may not make a call; the guard of RPC servers."""
    peer = peer_identity(connection)
    if rpc_call_allows(peer, method, argument):
        return ""
    return f"access denied to this certificate, which is of {peer or 'nobody known'}"


class TlsContexts:
    """The contexts of a daemon, up to date with its files at each new handshake.

    A change is detected by the files' inode, size and times, with one `stat` per file and
    handshake. Files that are half-written or wrong leave the last good contexts in use and are
    logged once. Established connections are kept. Only the constructor raises UsageError, for
    files that cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        files.check()
        self._files = files
        # The state is read before the files: a change in between is then found at the next check.
        self._state = _state(files)
        self._refused: object = None
        try:
            self._contexts = _load(files)
        except (OSError, ValueError) as exc:
            raise UsageError(_load_error(files, exc)) from exc

    def expiry(self) -> dict[str, float]:
        """Return when the own certificate and the first of the authorities expire.

        By `own` and `authority`, in Unix seconds.
        """
        self._refresh()
        return dict(self._contexts.expiry)

    def client(self) -> ssl.SSLContext:
        """Return the context for a new connection: ask again for each, the object is replaced.

        The peer's address is verified against its certificate, by `server_hostname`.
        """
        self._refresh()
        return self._contexts.client

    def to_masters(self) -> ssl.SSLContext:
        """Return the context for a new connection to a master.

        On a host with both daemons the certificate of either has the address, so the role counts.
        """
        self._refresh()
        return self._contexts.to_masters

    def to_agent(self, label: str) -> ssl.SSLContext:
        """Return the context for a new connection to the agent of a host, which no other one has.

        Raises AgentUnavailable if the files cannot be read for a host that was not asked before.
        """
        self._refresh()
        contexts = self._contexts.agents
        if label not in contexts:
            if len(contexts) >= MOST_AGENTS:
                contexts.clear()
            try:
                contexts[label] = _client(self._files, server=Role.AGENT, name=label)
            except (OSError, ValueError) as exc:
                raise AgentUnavailable(
                    f"host {label}: not asked: {_load_error(self._files, exc)}"
                ) from exc
        return contexts[label]

    def server(self, *, certificate_optional: bool = False) -> ssl.SSLContext:
        """Return a context for a listener, which serves changed files by itself.

        Peers need a certificate. `certificate_optional` is for REST, where a user may show a token
        instead; a certificate that is sent must be valid all the same.
        """
        listener = _empty_server(certificate_optional=certificate_optional)

        def use_latest(connection: Any, _name: str | None, _listener: Any) -> None:
            # OpenSSL calls this in every handshake, also without a server name. Replacing the
            # context replaces certificate, key and trusted authorities; the verification mode
            # stays that of the listener.
            self._refresh()
            contexts = self._contexts
            connection.context = contexts.optional if certificate_optional else contexts.server

        listener.sni_callback = use_latest
        return listener

    def _refresh(self) -> None:
        """Load the files if they have changed. Never raises: a handshake waits for it."""
        state = _state(self._files)
        if state == self._state:
            return
        try:
            self._contexts = _load(self._files)
        except (OSError, ValueError) as exc:
            self._log_refusal(state, exc)
            return  # `_state` stays that of the contexts in use, so each handshake tries again
        self._state, self._refused = state, None
        log.info("TLS files reloaded", extra=fields(path=self._files.cert))

    def _log_refusal(self, state: object, exc: Exception) -> None:
        """Log files that cannot be used: once per change, and not while they are being written."""
        if state != self._refused and state == _state(self._files):
            self._refused = state
            log.error(
                "TLS files cannot be used, the last good ones stay in use",
                extra=fields(error=_load_error(self._files, exc)),
            )


@dataclass(frozen=True, slots=True)
class _Contexts:
    server: ssl.SSLContext
    optional: ssl.SSLContext
    client: ssl.SSLContext
    to_masters: ssl.SSLContext
    expiry: Mapping[str, float]
    agents: dict[str, ssl.SSLContext] = field(default_factory=dict)
    """By host label, made when they are needed."""


def _load(files: TlsFiles) -> _Contexts:
    """Return contexts of the files. Raises OSError (SSLError included) or ValueError."""
    server, client = _server(files, certificate_optional=False), _client(files)
    # A handshake of the daemon with itself finds what loading does not: an expired certificate,
    # and one that another authority issued. Peers would refuse it, each with an error of its own.
    prober = _client(files)
    prober.check_hostname = False
    near, _ = shake_hands(prober, server)
    ends = [_end_of(one) for one in client.get_ca_certs()]
    return _Contexts(
        server,
        _server(files, certificate_optional=True),
        client,
        _client(files, server=Role.MASTER),
        {"own": _end_of(near.getpeercert() or {}), "authority": min(ends, default=0.0)},
    )


def _end_of(certificate: Mapping[str, Any]) -> float:
    """Return when a certificate, as `ssl` decodes it, expires."""
    return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))


def shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext, *, server_hostname: str | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Do a handshake in memory; return the client's and the server's end. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=server_hostname)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    # Two flights of each side complete TLS 1.3, three complete TLS 1.2; a side that is complete
    # does nothing.
    for end in (near, far) * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return near, far


def _server(files: TlsFiles, *, certificate_optional: bool) -> ssl.SSLContext:
    return _loaded(_empty_server(certificate_optional=certificate_optional), files)


def _empty_server(*, certificate_optional: bool) -> ssl.SSLContext:
    context = tls_trust.policed(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.verify_mode = ssl.CERT_OPTIONAL if certificate_optional else ssl.CERT_REQUIRED
    # Without tickets a peer cannot resume a session, and so is verified at each connection.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


class _WrongRole(ssl.SSLError):
    """A server has a valid certificate of another role or host than the one that was called."""

    reason = ""


class _ToMaster(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        _check_role(self, Role.MASTER)


class _SocketToMaster(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the base's
        super().do_handshake(block)
        _check_role(self, Role.MASTER)


def _to_agent(label: str) -> type[ssl.SSLObject]:
    """Return the class of connections to the agent of one host."""

    class ToAgent(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            _check_role(self, Role.AGENT)
            peer = identity_of(self.getpeercert())
            if peer is None or peer.name != label:
                raise _WrongRole(
                    1, f"the peer shows the certificate of {peer}, not of host {label}"
                )

    return ToAgent


def _check_role(connection: ssl.SSLObject | ssl.SSLSocket, role: Role) -> None:
    peer = identity_of(connection.getpeercert())
    if peer is None or peer.role is not role:
        found = "no certificate of this cluster" if peer is None else f"the certificate of {peer}"
        raise _WrongRole(1, f"the peer shows {found}, not of role {role}: compare its --tls-cert")


def _client(files: TlsFiles, server: Role | None = None, name: str = "") -> ssl.SSLContext:
    context = tls_trust.policed(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    if server is Role.AGENT:
        context.sslobject_class = _to_agent(name)
    elif server is Role.MASTER:
        context.sslobject_class = _ToMaster
        context.sslsocket_class = _SocketToMaster
    # OpenSSL takes the common name for a host name where a certificate has no DNS name. Here it
    # is a label: an agent labelled like a master's host name would pass for that master.
    context.hostname_checks_common_name = False
    return _loaded(context, files)


def _loaded(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.load_verify_locations(files.ca)
    if files.cert:
        context.load_cert_chain(files.cert, files.key, password=_no_passphrase)
    return context


def _no_passphrase() -> str:
    # The default asks on the terminal, which would stop a daemon until someone answers.
    raise ValueError("the key is encrypted: a daemon needs a key without a passphrase")


def _state(files: TlsFiles) -> tuple[object, ...]:
    return tuple(_file_state(path) for path in (files.ca, files.cert, files.key))


def _file_state(path: str) -> tuple[int, ...]:
    """Return what changes with a file's content; empty for a file that cannot be read."""
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _load_error(files: TlsFiles, exc: Exception) -> str:
    for flag, path in (("tls-ca", files.ca), ("tls-cert", files.cert), ("tls-key", files.key)):
        try:
            Path(path).read_bytes()
        except OSError as unreadable:
            return f"--{flag} {path}: {unreadable.strerror or unreadable}"
    named = f"--tls-ca {files.ca} --tls-cert {files.cert} --tls-key {files.key}"
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"{named}: certificate and authority do not match: {tls_trust.failed_check(exc)}"
    return f"{named}: not PEM, or a key of another certificate: {exc}"
