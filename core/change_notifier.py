"""A condition that is signalled again and again, for tasks that wait for the next change.

Take `next` first, then check the state, then wait on the event that was taken. In this order no
change is missed: one that comes after the check has already set that event.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress


class ChangeNotifier:
    """Wakes all waiting tasks at each change."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = asyncio.Event()
        """The event that the next change sets, and no other."""

    def notify(self) -> None:
        """Signal a change."""
        # A new event for each change, never `set` and `clear` on one event: a task that took the
        # event before the change must find it set, however late it runs.
        changed, self.next = self.next, asyncio.Event()
        changed.set()


async def each_change(changed: Callable[[], asyncio.Event], within: float) -> AsyncIterator[None]:
    """Yield at once, then after every change and at least each `within` seconds, for ever.

    `changed` returns an event that the next change sets. It is taken before each turn, so that a
    change during the turn is not missed.
    """
    while True:
        event = changed()
        yield
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await event.wait()
