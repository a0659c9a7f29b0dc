"""A clock for tests of what ends by time."""


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.at = 50.0

    def __call__(self) -> float:
        return self.at
