"""Imports that few daemons need, made when they are needed.

They need a free file descriptor, and files that an upgrade may be replacing at that moment. Neither
is a reason for a daemon to end: the caller gets an error that it foresees, and tries again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import HostError


@contextmanager
def importing(what: str) -> Iterator[None]:
    """Import modules in the body; raise HostError, which names `what`, if they cannot be read."""
    try:
        yield
    except (OSError, ImportError) as exc:
        raise HostError(f"the modules of {what} cannot be loaded: {exc}") from exc
