"""The netmasters that a client may ask, in the order in which it asks them. Pure.

In come the URLs that a user named and what became of requests; out comes whom to ask first. Used by
`contivmodel.client_sync` and `contivmodel.client_async`. Any netmaster answers: a follower hands a
request to the leader.
"""

from collections.abc import Iterable


class Masters:
    """URLs of netmasters, one at least, which may be ""."""

    def __init__(self, given: str | Iterable[str]) -> None:
        """Take a list, or a text in which commas separate the URLs."""
        listed = given.split(",") if isinstance(given, str) else given
        self._urls = [one.strip().removesuffix("/") for one in listed if one.strip()] or [""]

    def __len__(self) -> int:
        return len(self._urls)

    def in_turn(self) -> tuple[str, ...]:
        """Return all, first the one that answered last."""
        return tuple(self._urls)

    def answered(self, url: str) -> None:
        """Note that one answers: it is asked first from now on."""
        self._urls = [url, *(other for other in self._urls if other != url)]

    def failed(self, url: str) -> None:
        """Note that one does not: it is asked last from now on."""
        self._urls = [*(other for other in self._urls if other != url), url]
