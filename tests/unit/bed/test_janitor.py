"""Sweeping goes on whatever has become of a process in the meantime."""

import threading
from pathlib import Path

from tests.bed.janitor import sweep


def test_a_number_that_a_thread_has_by_now_ends_no_sweep(tmp_path: Path) -> None:
    """The finding of docs/notes/trust.md §20."""
    left = tmp_path / "left"
    left.mkdir()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        sweep([f"pid {thread.native_id} 0", f"dir {left}"])
    finally:
        done.set()
        thread.join()
    assert not left.exists()
