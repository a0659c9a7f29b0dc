"""Notifies one observer of the first change since it took the state. Pure.

`netplugin.world.builder` sets it on every change and clears it when its World is taken;
`netplugin.bridges.reconciler` is the observer.
"""

from collections.abc import Callable


class ChangeSignal:
    """Set by changes, cleared when the state is taken. It is set at first: none was taken yet."""

    def __init__(self) -> None:
        self._notify: Callable[[], None] | None = None
        self._pending = True

    def observe(self, notify: Callable[[], None]) -> None:
        """Call `notify` on the next first change, and now if there was one."""
        self._notify = notify
        if self._pending:
            notify()

    def set(self) -> None:
        """Note a change."""
        # One call is enough: until the observer has taken the state, it will see later changes too.
        # Thousands of records that come together thus cost one round.
        if not self._pending:
            self._pending = True
            if self._notify is not None:
                self._notify()

    def clear(self) -> None:
        """Note that the state was taken."""
        self._pending = False
