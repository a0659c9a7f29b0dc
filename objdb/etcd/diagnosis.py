"""Why a member of etcd does not answer: it may come late, or waiting will not help.

gRPC tells a TLS mistake from a dead server by the text alone (spec/store-notes.md §1.2). So a
member that does not answer is asked for its version over HTTP, which etcd serves on the same port:
what goes wrong with that says what to do. Nothing of it is asked while the store works.
"""

import asyncio
import json
import ssl
from typing import Final

from core.errors import StoreDenied, StoreUnavailable

PATIENCE: Final = 3.0
OLDEST: Final = (3, 3)
"""The first release with nested transactions."""
_ENOUGH: Final = 4096


async def examine(member: str, context: ssl.SSLContext | None) -> None:
    """Return if the member seems to be all right; without a context it should speak plainly.

    Raises StoreUnavailable if it may still come, StoreDenied, saying what to do, if waiting seems
    not to help. A server that starts or ends may look so for a moment.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            await (_plainly(member) if context is None else _with_tls(member, context))
    except (OSError, TimeoutError) as exc:
        raise StoreUnavailable(f"store {member}: {exc!s:.200}") from exc


async def _plainly(member: str) -> None:
    answer = await _answer(*await _opened(member, None))
    if answer.startswith(b"HTTP/1.0 200"):
        _judge(member, answer)
    elif await _speaks_tls(member):
        raise StoreDenied(
            f"store http://{member} speaks TLS: name it with https://, and its authority's "
            "certificate with --store-ca"
        )
    else:
        _judge(member, answer)


async def _with_tls(member: str, context: ssl.SSLContext) -> None:
    try:
        opened = await _opened(member, context)
    except ssl.SSLCertVerificationError as exc:
        raise StoreDenied(
            f"store https://{member}: its certificate is not accepted, {exc.verify_message}: is "
            "--store-ca its authority's, and does the certificate name this host or address?"
        ) from exc
    except (ssl.SSLError, ConnectionResetError) as exc:
        if not await _answer(*await _opened(member, None)):
            raise
        raise StoreDenied(f"store https://{member} speaks no TLS: name it with http://") from exc
    try:
        answer = await _answer(*opened)
    except (ssl.SSLError, ConnectionResetError) as exc:
        raise StoreDenied(
            f"store https://{member} does not accept our certificate: name one that its authority "
            "has signed with --store-cert and --store-key"
        ) from exc
    _judge(member, answer)


def _judge(member: str, answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode(errors="replace")
    if not status or " 5" in status[:10]:
        raise StoreUnavailable(f"store {member}: {status or 'it hangs up'}")
    try:
        version = str(json.loads(body)["etcdserver"])
        release = tuple(int(part) for part in version.split(".")[:2])
    except (ValueError, TypeError, KeyError) as exc:
        raise StoreDenied(f"store {member} is no etcd: it answered {status!r}") from exc
    if release < OLDEST:
        raise StoreDenied(f"store {member} is etcd {version}: run etcd 3.4 or later")


async def _opened(
    member: str, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = member.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Ask for the version; b"" from a server that hangs up."""
    try:
        writer.write(b"GET /version HTTP/1.0\r\n\r\n")
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
