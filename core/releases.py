"""Tells by a program's release whether a fault of it is mended there. Pure."""

import re
from collections.abc import Mapping
from typing import Final

Mended = Mapping[tuple[int, int], int]
"""The first patch release without a fault, of each series that got one; those above have it not."""

_NUMBER: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def has_fault(text: str, mended: Mended) -> bool:
    """Return whether the release whose number a text contains has a fault.

    Series below the last one of `mended` have it for good if they are not named. So has a text
    without a number, since it is not known.
    """
    found = _NUMBER.search(text)
    if found is None:
        return True
    major, minor, patch = map(int, found.groups())
    series = major, minor
    return series <= max(mended) and patch < mended.get(series, patch + 1)
