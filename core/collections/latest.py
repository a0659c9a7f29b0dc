"""A value that is kept with what it was computed from, until that is something else.

For values that are asked for at each change of a pod, and change with settings or hosts only.
Compared with `functools.lru_cache`, what it was computed from need not be hashable, and one value
is kept at most.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
V = TypeVar("V")


class Latest(Generic[P, V]):
    """Calls a pure function, and keeps what it returned for the latest arguments.

    The function is called again when an argument does not equal that of the call before. The value
    is the same object until then; callers must not change it.
    """

    def __init__(self, compute: Callable[P, V]) -> None:
        self._compute = compute
        self._kept: tuple[object, V] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> V:
        """Return the function's value for these arguments."""
        asked = args, kwargs
        if self._kept is None or self._kept[0] != asked:
            self._kept = asked, self._compute(*args, **kwargs)
        return self._kept[1]
