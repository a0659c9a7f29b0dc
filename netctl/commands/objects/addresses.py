"""Validation of addresses, for commands that check them before a request."""

import ipaddress

from core.numbers import bounded


def is_ipv4(text: str) -> bool:
    """Return whether a text is an IPv4 address as A.B.C.D."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def is_ipv6(text: str) -> bool:
    """Return whether a text is an IPv6 address, without a zone."""
    try:
        return ipaddress.IPv6Address(text).scope_id is None
    except ValueError:
        return False


def is_interface4(text: str) -> bool:
    """Return whether a text is an IPv4 address with a prefix length, as A.B.C.D/len."""
    address, _, length = text.partition("/")
    return is_ipv4(address) and bounded(length, 0, 32) is not None


def is_interface6(text: str) -> bool:
    """Return whether a text is an IPv6 address with a prefix length."""
    address, _, length = text.partition("/")
    return is_ipv6(address) and bounded(length, 0, 128) is not None
