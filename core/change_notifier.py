"""A condition that is signalled again and again, for tasks that wait for the next change.

Take `next` first, then check the state, then wait on the event that was taken. In this order no
change is missed: one that comes after the check has already set that event.
"""

import asyncio


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
