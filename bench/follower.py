"""The least an agent could do: `python -m bench.follower KIND URL PREFIX BRIDGE`.

Each value written under the prefix is a flow, added to the bridge by `ovs-ofctl` at once.
"""

import asyncio
import sys

from bench.stores import client
from objdb.api import Snapshot


async def follow(kind: str, url: str, prefix: str, bridge: str) -> None:
    """Say when the watch has begun, then add flows for ever."""
    async for item in client(kind, url).watch(prefix):
        if isinstance(item, Snapshot):
            print("watching", flush=True)
            continue
        for entry in item.puts:
            command = ["ovs-ofctl", "-O", "OpenFlow13", "add-flow", bridge, entry.value.decode()]
            process = await asyncio.create_subprocess_exec(*command)
            await process.wait()


if __name__ == "__main__":
    asyncio.run(follow(*sys.argv[1:]))
