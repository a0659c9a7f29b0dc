"""Why a member of a store does not answer: it may come late, or waiting will not help.

gRPC tells a TLS mistake from a dead server by the text alone (docs/notes/stores.md §1.2).
So a member that does not answer is asked a simple thing over HTTP, which etcd serves on the same
port: what goes wrong with that says what to do. Nothing of it is asked while the store works.
"""

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.errors import StoreDenied, StoreUnavailable

PATIENCE: Final = 3.0
OLDEST: Final = (3, 3)
"""The first release with nested transactions."""
_ENOUGH: Final = 4096
_NO_SERVERS: Final = b'""'
"""What an agent of consul's that knows of no leader says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProduct:
    """A kind of store: what it is asked, who judges the answer, where its certificates are named.

    `judge` takes the member, the status line and the body; it raises as `examine` does.
    """

    path: str
    judge: Callable[[str, str, bytes], None]
    ca: str
    own: str


async def examine(kind: StoreProduct, member: str, context: ssl.SSLContext | None) -> None:
    """Return if the member seems to be all right; without a context it should speak plainly.

    Raises StoreUnavailable if it may still come, StoreDenied, saying what to do, if waiting seems
    not to help. A server that starts or ends may look so for a moment.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            if context is None:
                answer = await _plainly(kind, member)
            else:
                answer = await _with_tls(kind, member, context)
    except (OSError, TimeoutError) as exc:
        raise StoreUnavailable(f"store {member}: {exc!s:.200}") from exc
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode(errors="replace")
    if not status or " 5" in status[:10]:
        raise StoreUnavailable(f"store {member}: {status or 'it hangs up'}")
    kind.judge(member, status, body)


async def _plainly(kind: StoreProduct, member: str) -> bytes:
    answer = await _answer(kind, *await _opened(member, None))
    if not answer.startswith(b"HTTP/1.0 200") and await _speaks_tls(member):
        raise StoreDenied(
            f"store http://{member} speaks TLS: name it with https://, and its authority's "
            f"certificate with {kind.ca}"
        )
    return answer


async def _with_tls(kind: StoreProduct, member: str, context: ssl.SSLContext) -> bytes:
    try:
        opened = await _opened(member, context)
    except ssl.SSLCertVerificationError as exc:
        raise StoreDenied(
            f"store https://{member}: its certificate is not accepted, {exc.verify_message}: is "
            f"{kind.ca} its authority's, and does the certificate name this host or address?"
        ) from exc
    except (ssl.SSLError, ConnectionResetError) as exc:
        if not await _answer(kind, *await _opened(member, None)):
            raise
        raise StoreDenied(f"store https://{member} speaks no TLS: name it with http://") from exc
    try:
        return await _answer(kind, *opened)
    except (ssl.SSLError, ConnectionResetError) as exc:
        raise StoreDenied(
            f"store https://{member} does not accept our certificate: name one that its authority "
            f"has signed with {kind.own}"
        ) from exc


def _judge_etcd(member: str, status: str, body: bytes) -> None:
    try:
        version = str(json.loads(body)["etcdserver"])
        release = tuple(int(part) for part in version.split(".")[:2])
    except (ValueError, TypeError, KeyError) as exc:
        raise StoreDenied(f"store {member} is no etcd: it answered {status!r}") from exc
    if release < OLDEST:
        raise StoreDenied(f"store {member} is etcd {version}: run etcd 3.4 or later")


def _judge_consul(member: str, status: str, body: bytes) -> None:
    """Judge who leads consul's servers, which it says without a token, as `"address:port"`."""
    if body.strip() == _NO_SERVERS:
        raise StoreUnavailable(f"store {member}: its servers have no leader")
    try:
        leader = json.loads(body)
    except ValueError:
        leader = None
    if not isinstance(leader, str) or ":" not in leader:
        raise StoreDenied(f"store {member} is no consul: it answered {status!r}")


ETCD: Final = StoreProduct(
    path="/version", judge=_judge_etcd, ca="--store-ca", own="--store-cert and --store-key"
)
CONSUL: Final = StoreProduct(
    path="/v1/status/leader",
    judge=_judge_consul,
    ca="CONSUL_CACERT",
    own="CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY",
)


async def _opened(
    member: str, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = member.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)


async def _answer(
    kind: StoreProduct, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bytes:
    """Ask a store of this kind; b"" from a server that hangs up."""
    try:
        writer.write(f"GET {kind.path} HTTP/1.0\r\n\r\n".encode())
        await writer.drain()
        return await _read(reader)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return an answer to its end, which in HTTP/1.0 is that of the connection."""
    answer = b""
    try:
        while data := await reader.read(_ENOUGH):
            answer += data
            if len(answer) >= _ENOUGH or not answer.startswith(b"HTTP/"):
                break
    except (ssl.SSLError, ConnectionResetError):
        if not answer:
            raise
    return answer


async def _speaks_tls(member: str) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await _opened(member, context)
    except ssl.SSLError as exc:
        return "ALERT" in str(exc)  # it misses our certificate
    except ConnectionError:
        return False
    writer.close()
    return True
