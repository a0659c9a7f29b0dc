"""Asks a health check port."""

import asyncio
import json


async def asked(port: int) -> tuple[int, dict[str, object]]:
    """Return the status and the body of what a port answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), json.loads(body)
