"""The blocking REST client of netctl: takes object paths, returns plain JSON data.

Failures have the texts of the original's client, with the URL and the dialled address.
"""

# Standard library only: aiohttp and pydantic take longer to import than a whole command takes to
# run. Data stays plain: netctl prints objects in the order of fields in which the server sent them.

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from contivmodel.http_exchange import (
    CutShort,
    HttpAnswer,
    HttpFailure,
    NoReply,
    NotSendable,
    exchange,
)
from contivmodel.masters import Masters
from core.errors import MasterRefused, MasterUnavailable, outcome_is_unknown

if TYPE_CHECKING:
    import ssl

Json = dict[str, Any]

Secure: TypeAlias = Callable[[], "ssl.SSLContext"]
"""Returns the TLS context of a connection to an https URL."""

TIMEOUT: Final = 60.0
"""Seconds without data after which a request fails; the original has no limit."""

CONNECT_TIMEOUT: Final = 5.0
"""Seconds after which another netmaster is asked, if there are several and one does not accept."""

PAGE: Final = 1000
"""Objects of a page of a list that is read in pages."""

_PART: Final = 65_536
"""Bytes of a part of a streamed answer, at most."""

_LOGIN: Final = "/api/v1/auth_proxy/login/"

_KEY_SAFE: Final = "$&+,:;=@"


class Answered(NamedTuple):
    """What a netmaster answered."""

    status: int
    reason: str
    body: bytes
    headers: Mapping[str, str]


class RestClient:
    """Client of the netmasters of a cluster; raises MasterUnavailable or MasterRefused.

    The texts of errors are for users. `base_url` may be several, separated by commas; `waiting` is
    entered while a request is answered. `secure` returns the TLS context for https; by default the
    authorities of this machine are trusted, with `insecure` any. With `what_if`, changes are not
    made: it gets what each would do.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str = "",
        insecure: bool = False,
        timeout: float = TIMEOUT,
        secure: Secure | None = None,
        what_if: Callable[[Json], None] | None = None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._what_if = what_if
        self._masters = Masters(base_url)
        self._waiting = waiting
        self._headers = {"X-Auth-Token": token} if token else {}
        self._secure = secure or (_unverified if insecure else _verified)
        self._timeout = timeout

    def list_all(self, plural: str) -> list[Json]:
        """Return all objects of a kind."""
        return self._objects(f"/api/v1/{plural}/")

    def read(self, plural: str, key: str) -> Json:
        """Return one object."""
        return self._object(_item(plural, key))

    def inspect(self, plural: str, key: str) -> Json:
        """Return an object's configuration and operational state."""
        return self._object(f"/api/v1/inspect/{plural}/{_quote(key)}/")

    def write(self, plural: str, key: str, body: Mapping[str, Any]) -> None:
        """Create or update one object."""
        self._change("POST", _item(plural, key), body)

    def create_if_absent(self, plural: str, key: str, body: Mapping[str, Any]) -> Json | None:
        """Create one object, unless there is one: then change nothing and return that one."""
        path = f"/api/v2/{plural}/{_quote(key)}"
        there = self.send("GET", path)
        if there.status == HTTPStatus.NOT_FOUND:
            if self._what_if is not None:
                self.write(plural, key, body)
                return None
            put = self.send("PUT", path, json.dumps(body).encode(), **{"If-None-Match": "*"})
            if put.status == HTTPStatus.CREATED:
                return None
            if put.status != HTTPStatus.PRECONDITION_FAILED:
                raise MasterRefused(_refusal(put.status, put.reason, put.body))
            there = self.send("GET", path)  # somebody else was quicker
        if there.status != HTTPStatus.OK:
            raise MasterRefused(_refusal(there.status, there.reason, there.body))
        found = _parse(there.body)
        if not isinstance(found, dict):
            raise MasterRefused(f"GET {path}: netmaster's answer is not an object")
        return found

    def change(self, plural: str, key: str, fields: Mapping[str, Any]) -> None:
        """Change some fields of one object, also to nothing."""
        self._change("PATCH", f"/api/v2/{plural}/{_quote(key)}", fields)

    def delete(self, plural: str, key: str) -> None:
        """Remove one object; a path the server does not know counts as removed."""
        self._change("DELETE", _item(plural, key))

    def _change(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        if self._what_if is None:
            self._ask(method, path, body)
        else:
            payload = None if body is None else json.dumps(body).encode()
            status, reason, answer, _ = self.send(method, f"{path}?dryRun=true", payload)
            if status != HTTPStatus.OK:
                raise MasterRefused(_refusal(status, reason, answer))
            self._what_if(_parse(answer))

    def changes(self, asked: Mapping[str, str], most: int) -> list[Json]:
        """Return the last changes of objects that the query parameters ask for, newest first."""
        query = urlencode({**asked, "limit": most})
        return list(self._object(f"/api/v2/changes?{query}").get("items", ()))

    def endpoints(self, asked: Iterable[tuple[str, str]], limit: int = PAGE) -> Iterator[Json]:
        """Return the endpoints that the query parameters ask for, read `limit` at a time."""
        return self._paged("/api/v2/endpoints", asked, limit)

    def kept_addresses(self, asked: Mapping[str, str], limit: int = PAGE) -> Iterator[Json]:
        """Return what is kept for pods and machines, with these fields."""
        return self._paged("/api/v2/kept-addresses", asked.items(), limit)

    def release_kept(self, key: str) -> None:
        """Release what is kept for a pod or machine that is away."""
        answer = self.send("DELETE", f"/api/v2/kept-addresses/{_quote(key)}")
        if answer.status != HTTPStatus.NO_CONTENT:
            raise MasterRefused(_refusal(answer.status, answer.reason, answer.body))

    def capture(self, endpoint: str, bounds: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the packets of an endpoint, a file in pcap format, as they come."""
        return self._stream(f"/api/v2/endpoints/{_quote(endpoint)}/capture?{urlencode(bounds)}")

    def diagnosis(self) -> Iterator[bytes]:
        """Yield the parts of an archive of what all daemons say of themselves."""
        return self._stream("/api/v2/diagnosis")

    def rule_hits(self, tenant: str, policy: str) -> Json:
        """Return the hits of a policy's rules on all hosts, and which hosts did not answer."""
        return self._object(f"/api/v2/rule-hits?{urlencode({'tenant': tenant, 'policy': policy})}")

    def kubernetes_rules(self, namespace: str, pod: str) -> Json:
        """Return what Kubernetes' policies and services say of pods, "" for any.

        Also which hosts did not answer.
        """
        asked = urlencode({"namespace": namespace, "pod": pod})
        return self._object(f"/api/v2/kubernetes-rules?{asked}")

    def policy_log(self, asked: Mapping[str, str], most: int) -> Json:
        """Return the last records of rules with `log` that the query asks for, newest first.

        Also how many packets have none, and which hosts did not answer.
        """
        return self._object(f"/api/v2/policy-log?{urlencode({**asked, 'limit': most})}")

    def flows(self, asked: Mapping[str, str], most: int) -> Json:
        """Return the last records of flows that the query asks for, newest first.

        Also what the records lack, and which hosts have none or did not answer.
        """
        return self._object(f"/api/v2/flows?{urlencode({**asked, 'limit': most})}")

    def watch_flows(self, asked: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
        """Yield the events of a watch of flows until it ends: each one's name, and its data."""
        rest, name = b"", ""
        for part in self._stream(f"/api/v2/flows/watch?{urlencode(asked)}"):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                field, _, value = line.decode().partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, _parse(value.encode())

    def conditions(self, plural: str, key: str) -> Json:
        """Return on which hosts an object, or an endpoint, is realised, and why not on others."""
        return self._object(f"/api/v2/{plural}/{_quote(key)}/conditions")

    def policy_suggestion(self, asked: Mapping[str, str]) -> Json:
        """Return policies that allow the connections that were seen, and what they would deny."""
        return self._object(f"/api/v2/policy-suggestion?{urlencode(asked)}")

    def self_test(self) -> Json:
        """Have every host test itself and its ways to all others; return the outcomes."""
        return self._object("/api/v2/selftest")

    def trace(self, asked: Iterable[tuple[str, str]]) -> Json:
        """Return what would happen to the packet that the query parameters describe."""
        return self._object(f"/api/v2/trace?{urlencode([*asked])}")

    def live_trace(self, asked: Iterable[tuple[str, str]]) -> Json:
        """Have the packet that the query parameters describe sent; return what became of it."""
        return self._object(f"/api/v2/trace?{urlencode([*asked])}", "POST")

    def hosts(self) -> list[Json]:
        """Return all hosts and whether they have applied all changes."""
        return self._objects("/hosts")

    def host(self, label: str) -> Json:
        """Return one host."""
        return self._object(f"/hosts/{_quote(label)}")

    def version(self) -> Json:
        """Return the server's version."""
        return self._object("/version")

    def check_ipam(self) -> Json:
        """Check the address grants and return the findings."""
        return self._object("/ipam/check")

    def fix_ipam(self) -> Json:
        """Fix what is certain; return the fixes and the remaining findings."""
        return self._object("/ipam/fix", "POST")

    def drain_host(self, label: str, *, undo: bool) -> Json:
        """Drain a host, or undo it; return its state."""
        path = f"/hosts/{_quote(label)}/drain"
        self._ask("DELETE" if undo else "POST", path)
        return self._object(path)

    def remove_host(self, label: str, *, force: bool) -> None:
        """Remove a host; with `force` also one with an agent or endpoints."""
        self._ask("DELETE", f"/hosts/{_quote(label)}{'/force' if force else ''}")

    def login(self, username: str, password: str) -> tuple[int, bytes]:
        """Log in at an authenticating proxy; return status and body, with a token if 200."""
        body = {"username": username, "password": password}
        answered = self.send("POST", _LOGIN, json.dumps(body).encode())
        return answered.status, answered.body

    def send(
        self, method: str, path: str, payload: bytes | None = None, **headers: str
    ) -> Answered:
        """Return the answer to any request; a payload is JSON. Raises MasterUnavailable."""
        with self.opened(method, path, payload, headers) as response:
            return Answered(response.status, response.reason, response.read(), response.headers)

    @contextmanager
    def opened(
        self,
        method: str,
        path: str,
        payload: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[HttpAnswer]:
        """Yield the answer to a request, to be read within. Raises MasterUnavailable."""
        with self._waiting(), self._first_answer(method, path, payload, headers or {}) as found:
            url, response = found
            try:
                yield response
            except (OSError, HttpFailure) as exc:
                raise _failure(method, url, exc) from exc

    @contextmanager
    def _first_answer(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[tuple[str, HttpAnswer]]:
        """Yield the answer of the first netmaster that gives one, and the URL that was asked.

        The one that answered last is asked first. A change goes to another one only if it was not
        sent, so that it is never made twice.
        """
        failures: list[MasterUnavailable] = []
        for base in self._masters.in_turn():
            url = base + path
            with ExitStack() as stack:
                try:
                    answer = stack.enter_context(self._exchange(method, url, payload, headers))
                except (_BadURL, OSError, HttpFailure) as exc:
                    self._masters.failed(base)
                    failures.append(_failure(method, url, exc))
                    if outcome_is_unknown(failures[-1]):
                        break
                    continue
                self._masters.answered(base)
                yield url, answer
                return
        raise MasterUnavailable(
            "; ".join(map(str, failures)), outcome_unknown=outcome_is_unknown(failures[-1])
        )

    def _paged(self, path: str, asked: Iterable[tuple[str, str]], limit: int) -> Iterator[Json]:
        """Yield the items of a list, page by page."""
        after, having = "", [*asked, ("limit", str(limit))]
        while True:
            page = self._object(
                f"{path}?{urlencode([*having, *([('after', after)] if after else ())])}"
            )
            yield from page.get("items", ())
            after = page.get("next", "")
            if not after:
                return

    def _objects(self, path: str) -> list[Json]:
        found = self._ask("GET", path)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise MasterRefused(f"GET {path}: netmaster's answer is not a list of objects")
        return found

    def _object(self, path: str, method: str = "GET") -> Json:
        found = self._ask(method, path)
        if not isinstance(found, dict):
            raise MasterRefused(f"{method} {path}: netmaster's answer is not an object")
        return found

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        payload = None if body is None else json.dumps(body).encode()
        status, reason, answer, _ = self.send(method, path, payload)
        if status != HTTPStatus.OK and not (method == "DELETE" and status == HTTPStatus.NOT_FOUND):
            raise MasterRefused(_refusal(status, reason, answer))
        return None if method == "DELETE" else _parse(answer)

    def _stream(self, path: str) -> Iterator[bytes]:
        """Yield the body of an answer as it comes. Raises as all requests, also in its middle."""
        with self.opened("GET", path) as response:
            if response.status != HTTPStatus.OK:
                text = _refusal(response.status, response.reason, response.read())
                raise MasterRefused(text)
            while part := response.read1(_PART):
                yield part

    @contextmanager
    def _exchange(
        self, method: str, url: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[HttpAnswer]:
        peer = _Peer.of(url)
        typed = {} if payload is None else {"Content-Type": "application/json"}
        patience = self._timeout if len(self._masters) == 1 else min(self._timeout, CONNECT_TIMEOUT)
        with closing(peer.connected(self._secure, patience)) as sock:
            sock.settimeout(self._timeout)
            asked = {**self._headers, **typed, **headers}
            with exchange(
                sock, method, peer.target, host=peer.authority, headers=asked, payload=payload
            ) as answer:
                yield answer


def _failure(method: str, url: str, exc: Exception) -> MasterUnavailable:
    """Return the error of a request without an answer, or whose answer broke off."""
    if isinstance(exc, _BadURL):
        return MasterUnavailable(str(exc))
    unknown = method != "GET" and not isinstance(exc, (_NotSent, NotSendable))
    text = f'{method.capitalize()} "{url}": {_go_error_text(exc)}'
    if isinstance(exc, (NoReply, ConnectionResetError)) and _speaks_tls(_Peer.of(url)):
        text = f"{text}: it speaks TLS, name it with https:// instead of http://"
    return MasterUnavailable(text, outcome_unknown=unknown)


_TLS_FAILED: Final = "tls: "
"""What begins the text of a handshake that a server of TLS refused."""


class _BadURL(ValueError):
    """The base URL cannot be dialled."""


class _NotSent(OSError):
    """No connection was made, so no request was sent."""


class _Peer(NamedTuple):
    """Whom a request goes to, by its URL."""

    host: str
    port: int
    tls: bool
    authority: str
    """Host and port as in the URL's authority, the port only if it is not that of the scheme."""
    target: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the peer of a URL. Raises _BadURL and _NotSent, in the original's words."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as exc:
            raise _BadURL(f'parse "{url}": {exc}') from exc
        if not parts.scheme and ":" in parts.path.partition("/")[0]:
            raise _BadURL(f'parse "{url}": first path segment in URL cannot contain colon')
        if parts.scheme not in {"http", "https"}:
            raise _NotSent(f'unsupported protocol scheme "{parts.scheme}"')
        if not parts.hostname:
            raise _NotSent("http: no Host in request URL")
        tls = parts.scheme == "https"
        usual = 443 if tls else 80
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        authority = name if port in {None, usual} else f"{name}:{port}"
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if not (authority + target).isascii() or not (authority + target).isprintable():
            raise _BadURL(f'parse "{url}": net/url: invalid control character in URL')
        return cls(parts.hostname, port or usual, tls, authority, target)

    def connected(self, secure: Secure, timeout: float) -> socket.socket:
        """Connect, with a TLS handshake for https."""
        sock = _dial(self.host, self.port, timeout)
        if not self.tls:
            return sock
        try:
            return _encrypted(sock, self.host, secure)
        except OSError:
            sock.close()
            raise


def _dial(host: str, port: int, timeout: float | None) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise _NotSent(f"dial tcp: lookup {host}: {_lookup_failure(exc)}") from exc
    failures: list[_NotSent] = []
    for family, kind, protocol, _, address in found:
        where = f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0])
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(timeout)
        try:
            sock.connect(address)
        except OSError as exc:
            sock.close()
            why = "i/o timeout" if isinstance(exc, TimeoutError) else f"connect: {_errno(exc)}"
            failures.append(_NotSent(f"dial tcp {where}:{port}: {why}"))
        else:
            return sock
    raise failures[0]


def _verified() -> "ssl.SSLContext":
    from core.net import tls_trust  # noqa: PLC0415 - most commands use plain http

    return tls_trust.client_context()


def _unverified() -> "ssl.SSLContext":
    from core.net import tls_trust  # noqa: PLC0415 - most commands use plain http

    return tls_trust.unverifying_context()


def _encrypted(sock: socket.socket, host: str, secure: Secure) -> socket.socket:
    import ssl  # noqa: PLC0415 - most commands use plain http

    context = secure()
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as exc:
        from core.net import tls_trust  # noqa: PLC0415 - most commands use plain http

        raise _NotSent(f"x509: {tls_trust.failed_check(exc)}") from exc
    except ssl.SSLError as exc:
        if exc.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
            raise _NotSent("http: server gave HTTP response to HTTPS client") from exc
        raise _NotSent(f"{_TLS_FAILED}{exc.reason}") from exc


def _speaks_tls(peer: _Peer) -> bool:
    """Tell whether a server that hung up on plain http answers a TLS handshake."""
    if peer.tls:
        return False
    try:
        with closing(peer._replace(tls=True).connected(_unverified, CONNECT_TIMEOUT)):
            return True
    except OSError as exc:
        return str(exc).startswith(_TLS_FAILED)


def _go_error_text(exc: Exception) -> str:
    match exc:
        case _NotSent() | NotSendable():
            return str(exc)
        case NoReply():
            return "EOF"
        case CutShort():
            return "unexpected EOF"
        case HttpFailure():
            return f"malformed HTTP response {json.dumps(str(exc))}"
        case TimeoutError():
            return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        case _:
            return _errno(exc)


def _errno(exc: Exception) -> str:
    return str(getattr(exc, "strerror", None) or exc).lower()


def _lookup_failure(exc: OSError) -> str:
    unknown = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)}
    return "no such host" if exc.errno in unknown else _errno(exc)


def _refusal(status: int, reason: str, answer: bytes) -> str:
    if problem := _problem(answer):
        return problem
    match status:
        case HTTPStatus.NOT_FOUND:
            return "Page not found!"
        case HTTPStatus.FORBIDDEN:
            return "Access denied!"
        case HTTPStatus.INTERNAL_SERVER_ERROR:
            return answer.decode("utf-8", "replace")
        case HTTPStatus.BAD_GATEWAY | HTTPStatus.SERVICE_UNAVAILABLE:
            why = answer.decode("utf-8", "replace").strip()
            # A proxy answers with a page; netmaster, with a line.
            return f"{status} {reason}: {why}" if _is_line(why) else f"{status} {reason}"
        case _:
            return f"{status} {reason}"


def _is_line(text: str) -> bool:
    return text.isprintable() and text != "" and not text.startswith("<")


def _problem(answer: bytes) -> str:
    """Return what an answer of API v2 says is wrong, and the remedy (RFC 9457); "" for others."""
    try:
        problem = json.loads(answer)
    except ValueError:
        return ""
    if not isinstance(problem, dict) or not problem.get("detail"):
        return ""
    told = str(problem["detail"])
    return f"{told} ({problem['remedy']})" if problem.get("remedy") else told


def _parse(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError as exc:
        raise MasterRefused(f"the answer is not JSON: {exc}") from exc


def _item(plural: str, key: str) -> str:
    return f"/api/v1/{plural}/{_quote(key)}/"


def _quote(key: str) -> str:
    return quote(key, safe=_KEY_SAFE)
