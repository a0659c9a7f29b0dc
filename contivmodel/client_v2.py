"""A blocking client of API v2 that speaks of models: `contivmodel.objects` in, the same out.

It sends what `contivmodel.calls_v2` describes; `contivmodel.client_async` awaits the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Final, TypeVar

from contivmodel import calls_v2
from contivmodel.calls_v2 import (
    ApiChange,
    Call,
    DryRunResult,
    EventReader,
    Events,
    Followed,
    Listing,
    Versioned,
)
from contivmodel.client_sync import TIMEOUT, Answered, RestClient, Secure
from contivmodel.masters import Masters
from contivmodel.objects import RestObject
from core.errors import MasterUnavailable

M = TypeVar("M", bound=RestObject)
T = TypeVar("T")

_PART: Final = 65_536
"""Bytes of a stream that are read at once, at most."""


class ApiClient:
    """Client of the netmasters of a cluster.

    `masters` are their URLs, as a list or separated by commas: any of them answers, and one that
    does not is asked last from then on. The other arguments are those of `RestClient`.
    """

    def __init__(
        self,
        masters: str | Iterable[str],
        *,
        token: str = "",
        timeout: float = TIMEOUT,
        secure: Secure | None = None,
    ) -> None:
        urls = Masters(masters).in_turn()
        self._has_others = len(urls) > 1
        self._rest = RestClient(",".join(urls), token=token, timeout=timeout, secure=secure)

    def ask(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises what the call says, and MasterUnavailable."""
        return call.answer(self._rest.send(call.method, call.path, call.payload, **call.headers))

    def each(self, listing: Listing[T]) -> Iterator[T]:
        """Yield what a listing has, read page by page."""
        after = ""
        while True:
            page = self.ask(listing.page(after))
            yield from page.items
            if not (after := page.next):
                return

    def read(self, model: type[M], key: str) -> Versioned[M]:
        """Return an object. Raises NotFound."""
        return self.ask(calls_v2.reading(model, key))

    def list_all(self, model: type[M], having: Mapping[str, str] | None = None) -> Iterator[M]:
        """Yield the objects whose fields, by their names in JSON, have these values."""
        return self.each(calls_v2.objects(model, having))

    def make(self, change: ApiChange[M]) -> Versioned[M] | None:
        """Make a change; return the object, None if it was deleted.

        After MasterUnavailable with `outcome_unknown`, make the same change again.
        """
        return self.ask(calls_v2.making(change))

    def preview(self, change: ApiChange[M]) -> DryRunResult[M]:
        """Return what a change would do. Raises what making it would."""
        return self.ask(calls_v2.preview(change))

    def follow(self, model: type[M]) -> Iterator[Mapping[str, M]]:
        """Yield all objects of a class by key, as they are now, and again after each change.

        Connects again where it ended, and reads the whole list again where the events do not tell
        all. With several masters it goes on with another where one goes. Raises MasterUnavailable;
        whoever goes on after that begins anew.
        """
        followed = Followed(model)
        while True:
            came = False
            try:
                for event in self.events(followed.after):
                    came = True
                    if whole := followed.lacks(event):
                        followed.found = {one.object_key(): one for one in self.list_all(model)}
                    if followed.took(event) or whole:
                        yield dict(followed.found)
            except MasterUnavailable:
                if not came or not self._has_others:
                    raise

    def events(self, after: str | None = None) -> Iterator[Events]:
        """Yield what changes behind an event's id, or from now on, until the connection ends.

        The first one has no changes if `after` is None: it says where the watch begins. Go on
        with the last id, with any netmaster. Raises MasterUnavailable.
        """
        call = calls_v2.watching(after)
        with self._rest.opened(call.method, call.path, headers=call.headers) as response:
            if response.status != HTTPStatus.OK:
                body, told = response.read(), dict(response.headers)
                call.answer(Answered(response.status, response.reason, body, told))
            reader = EventReader()
            while part := response.read1(_PART):
                yield from reader.read(part)
