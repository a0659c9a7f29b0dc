"""Validation of addresses before a request."""

import pytest

from netctl.commands.objects.addresses import is_interface4, is_ipv4, is_ipv6


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("10.0.0.1", 4),
        ("10.0.0.01", 0),
        ("10.0.0", 0),
        ("fd00::1", 6),
        ("::ffff:10.0.0.1", 6),
        ("fe80::1%eth0", 0),
        ("", 0),
    ],
)
def test_an_address_is_of_one_family(text: str, kind: int) -> None:
    assert (is_ipv4(text), is_ipv6(text)) == (kind == 4, kind == 6)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("10.0.0.1/24", True),
        ("10.0.0.1/0", True),
        ("10.0.0.1/33", False),
        ("10.0.0.1/255.255.255.0", False),
        ("10.0.0.1/", False),
        ("10.0.0.1", False),
        ("fd00::1/64", False),
        ("10.0.0.1/²", False),
    ],
)
def test_an_interface_has_a_length(text: str, fits: bool) -> None:
    assert is_interface4(text) is fits
