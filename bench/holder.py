"""Holds a key under a lease until it is killed: `python -m bench.holder KIND URL KEY SECONDS`."""

import asyncio
import sys

from bench.stores import client
from objdb.api import Change, Put


async def hold(kind: str, url: str, key: str, seconds: float) -> None:
    """Put the key, say so, and keep its lease alive for ever."""
    backend = client(kind, url)
    lease = await backend.lease(seconds)
    await backend.commit([Change((), (Put(key, b"held", lease),))])
    print("held", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
