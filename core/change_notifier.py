"""Something that changes again and again, for those who wait until it has.

Whoever takes `next` before looking misses no change: look, and wait on what was taken.
"""

import asyncio


class ChangeNotifier:
    """Wakes everybody who waits, at each change."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = asyncio.Event()
        """The event that the next change sets, and no other."""

    def tell(self) -> None:
        """Say that there was a change."""
        told, self.next = self.next, asyncio.Event()
        told.set()
