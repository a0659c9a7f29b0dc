"""A process that holds a lock and, asked on stdin, commits with its fence: `holder.py <store>`.

Says `held`, and for each line that comes in `committed` or `refused`.
"""

import asyncio
import sys

from core.errors import FenceLost
from objdb.api import Change, Put
from objdb.connect import connect, parse_store_url

LOCK = "/test/lock"
VALUE = "/test/value"


async def main(url: str) -> None:
    """Hold the lock until stdin ends."""
    backend = connect(parse_store_url(url))
    fence = await backend.lock(LOCK, "process", 2).acquire()
    say("held")
    while await asyncio.to_thread(sys.stdin.readline):
        try:
            await backend.commit(
                [Change((), (Put(VALUE, b"process"),))], fence=fence, writer="process"
            )
        except FenceLost:
            say("refused")
        else:
            say("committed")
    await backend.close()


def say(word: str) -> None:
    """Print a word at once."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
