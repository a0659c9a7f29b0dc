"""Which releases end at a connection that is translated to what it was."""

import pytest

from ofnet.datapath import ends_at_unchanged_addresses


# the sources of these releases have the assertion, or do not
@pytest.mark.parametrize(
    ("release", "ends"),
    [
        *((one, True) for one in ("2.5.0", "2.17.0", "2.17.7", "3.0.4", "3.1.0", "3.1.2")),
        *((one, True) for one in ("3.2.0", "3.2.2", "2.16.99", "", "of our own")),
        *((one, False) for one in ("2.17.8", "2.17.12", "3.0.5", "3.1.3", "3.1.7", "3.2.3")),
        *((one, False) for one in ("3.3.0", "3.5.0", "3.7.1", "4.0.0", "3.3.90-1", "10.0.0")),
    ],
)
def test_the_fault_is_known_by_the_release(release: str, ends: bool) -> None:
    assert ends_at_unchanged_addresses(release) is ends
