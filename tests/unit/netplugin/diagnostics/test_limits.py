"""So many requests at once, and a place is free again when its request ends, however it does."""

import pytest

from core.errors import Exhausted
from netplugin.diagnostics.limits import ConcurrencyLimit


def test_one_more_than_there_are_places_is_refused() -> None:
    places = ConcurrencyLimit(2, "questions run already")
    refused = pytest.raises(Exhausted, match="2 questions run already")
    with places.taken(), places.taken(), refused, places.taken():
        pass
    with places.taken():
        pass


def test_a_request_that_fails_frees_its_place() -> None:
    places = ConcurrencyLimit(1, "questions run already")
    with pytest.raises(ValueError, match="broken"), places.taken():
        raise ValueError("broken")
    with places.taken():
        pass
