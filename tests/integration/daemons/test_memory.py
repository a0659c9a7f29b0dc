"""Memory that a process gives back, and threads that share an arena."""

import re
import subprocess
import sys
from typing import Final

THREADS: Final = """
import ctypes, threading
from daemons.memory import use_one_arena
{call}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
held = threading.Barrier(9)
def allocate():
    libc.malloc(1 << 10)
    held.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads: thread.start()
held.wait()
libc.malloc_stats()
"""


PAGES: Final = """
import ctypes
from daemons.memory import reclaim
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def held():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) >> 8
blocks = [libc.malloc(1 << 16) for _ in range(1024)]
for block in blocks: ctypes.memset(block, 1, 1 << 16)
for block in blocks[:-1]: libc.free(block)
print(held())
reclaim()
print(held())
"""


def _told(program: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=True)


def _arenas(call: str) -> int:
    """Return how many arenas a process has of which eight threads have allocated memory."""
    told = _told(THREADS.format(call=call)).stderr
    return len(re.findall(r"^Arena \d+:", told, re.MULTILINE))


def test_threads_share_one_arena() -> None:
    assert _arenas("") > 1
    assert _arenas("use_one_arena()") == 1


def test_pages_below_a_used_one_are_given_back() -> None:
    before, after = map(int, _told(PAGES).stdout.split())
    assert before - after > 50  # of 64 MiB
