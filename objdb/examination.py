"""Diagnoses why a member of a store does not answer: not up yet, or misconfigured.

`examine` sends one plain HTTP request, which etcd serves on the same port as gRPC. Its failure
tells what to do. Used only while the store does not answer.
"""

# Why a separate request: gRPC reports a TLS mismatch and a dead server with the same code and
# differs in the text alone (docs/notes/stores.md §1.2); it retries both for ever. HTTP/1.0
# over a socket of our own shows at which step it fails: connect, handshake, or answer.

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from core.errors import StoreDenied, StoreUnavailable
from core.net import tls_trust
from core.outside_json import read_json
from core.patience import patient
from core.tasks import unbroken

TIMEOUT: Final = patient(3.0)
OLDEST: Final = (3, 3)
"""The first etcd release with nested transactions."""
_MAX_ANSWER: Final = 4096
_NO_SERVERS: Final = b'""'
"""The answer of a consul agent that knows no leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProduct:
    """A kind of store: the path to request, the check of the answer, its certificate settings.

    `check` takes the member, the status line and the body; it raises as `examine` does. `ca` and
    `own` name the settings of the authority and of the client's certificate.
    """

    path: str
    check: Callable[[str, str, bytes], None]
    ca: str
    own: str


async def examine(kind: StoreProduct, member: str, context: ssl.SSLContext | None) -> None:
    """Return if the member seems usable; without a context it is expected to speak without TLS.

    Raises StoreUnavailable if it may still come up; StoreDenied, with the remedy, if waiting seems
    useless. A server that starts or stops can cause either for a moment.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            if context is None:
                answer = await _request_plain(kind, member)
            else:
                answer = await _request_tls(kind, member, context)
    except (OSError, TimeoutError) as exc:
        raise StoreUnavailable(f"store {member}: {exc!s:.200}") from exc
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode(errors="replace")
    if not status or " 5" in status[:10]:
        raise StoreUnavailable(f"store {member}: {status or 'it hangs up'}")
    kind.check(member, status, body)


async def strict_fault(member: str, context: ssl.SSLContext) -> str:
    """Return what a client that takes RFC 5280 strictly says of a member's certificates; else "".

    `context` is that of the store's client, and is changed. Raises StoreUnavailable if the member
    shows no certificate.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            async with _connected(member, tls_trust.strict(context)):
                return ""
    except ssl.SSLCertVerificationError as exc:
        return exc.verify_message
    except (OSError, TimeoutError) as exc:
        raise StoreUnavailable(f"store {member}: {exc!s:.200}") from exc


async def _request_plain(kind: StoreProduct, member: str) -> bytes:
    async with _connected(member, None) as streams:
        answer = await _request(kind, *streams)
    if not answer.startswith(b"HTTP/1.0 200") and await _speaks_tls(member):
        raise StoreDenied(
            f"store http://{member} speaks TLS: name it with https://, and its authority's "
            f"certificate with {kind.ca}"
        )
    return answer


async def _request_tls(kind: StoreProduct, member: str, context: ssl.SSLContext) -> bytes:
    async with AsyncExitStack() as closed_at_the_end:
        try:
            streams = await closed_at_the_end.enter_async_context(_connected(member, context))
        except ssl.SSLCertVerificationError as exc:
            raise StoreDenied(
                f"store https://{member}: its certificate is not accepted, "
                f"{tls_trust.failed_check(exc)}: is {kind.ca} its authority's, and does the "
                "certificate name this host or address?"
            ) from exc
        except (ssl.SSLError, ConnectionResetError) as exc:
            async with _connected(member, None) as plain:
                if not await _request(kind, *plain):
                    raise
            raise StoreDenied(
                f"store https://{member} speaks no TLS: name it with http://"
            ) from exc
        try:
            return await _request(kind, *streams)
        except (ssl.SSLError, ConnectionResetError) as exc:
            raise StoreDenied(
                f"store https://{member} does not accept our certificate: name one that its "
                f"authority has signed with {kind.own}"
            ) from exc


def _check_etcd(member: str, status: str, body: bytes) -> None:
    try:
        version = str(read_json(body)["etcdserver"])
        release = tuple(int(part) for part in version.split(".")[:2])
    except (ValueError, TypeError, KeyError) as exc:
        raise StoreDenied(f"store {member} is no etcd: it answered {status!r}") from exc
    if release < OLDEST:
        raise StoreDenied(f"store {member} is etcd {version}: run etcd 3.4 or later")


def _check_consul(member: str, status: str, body: bytes) -> None:
    """Check the leader's `"address:port"`, which consul returns without a token."""
    if body.strip() == _NO_SERVERS:
        raise StoreUnavailable(f"store {member}: its servers have no leader")
    try:
        leader = read_json(body)
    except ValueError:
        leader = None
    if not isinstance(leader, str) or ":" not in leader:
        raise StoreDenied(f"store {member} is no consul: it answered {status!r}")


ETCD: Final = StoreProduct(
    path="/version", check=_check_etcd, ca="--store-ca", own="--store-cert and --store-key"
)
CONSUL: Final = StoreProduct(
    path="/v1/status/leader",
    check=_check_consul,
    ca="CONSUL_CACERT",
    own="CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY",
)


@asynccontextmanager
async def _connected(
    member: str, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect, with TLS if there is a context; give up the connection at the end."""
    host, _, port = member.rpartition(":")
    host = host.strip("[]")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        if context is not None:
            # Not cancelled half-way: the loop prints a traceback of a handshake whose failure was
            # not awaited, as in a process that was late for both, the failure and the end of its
            # time.
            await unbroken(
                writer.start_tls(context, server_hostname=host, ssl_handshake_timeout=TIMEOUT)
            )
        yield reader, writer
    finally:
        # Not closed in good order: with TLS that takes a word of the member, else half a minute.
        writer.transport.abort()
        # A server's alert may come when nobody reads any more. The garbage collector prints the
        # traceback of a failure that nobody fetched, after the message that says what to do.
        with suppress(OSError):
            await writer.wait_closed()


async def _request(
    kind: StoreProduct, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bytes:
    """Send the request; return b"" if the server closes the connection."""
    writer.write(f"GET {kind.path} HTTP/1.0\r\n\r\n".encode())
    await writer.drain()
    return await _read(reader)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Read an answer up to its end, in HTTP/1.0 the end of the connection."""
    answer = b""
    try:
        while data := await reader.read(_MAX_ANSWER):
            answer += data
            if len(answer) >= _MAX_ANSWER or not answer.startswith(b"HTTP/"):
                break
    except (ssl.SSLError, ConnectionResetError):
        if not answer:
            raise
    return answer


async def _speaks_tls(member: str) -> bool:
    try:
        async with _connected(member, tls_trust.unverifying_context()):
            return True
    except ssl.SSLError as exc:
        return "ALERT" in str(exc)  # it requires a client certificate
    except ConnectionError:
        return False
