"""What networks claim, and whose claims overlap."""

import pytest

from contivmodel.objects import Network
from core.addresses import ipv6
from netmaster.ipam.claims import Overlaps, SubnetClaims, claim


def a_network(subnet: str, subnet6: str = "", *, tenant: str = "t", name: str = "n") -> Network:
    key = f"{tenant}:{name}"
    return Network(
        key=key, tenant_name=tenant, network_name=name, subnet=subnet, ipv6_subnet=subnet6
    )


def overlaps(one: Network, other: Network) -> Overlaps:
    """Return what the claim of one finds where the other is, and is nothing once it is not."""
    claims = SubnetClaims()
    claims.add(other)
    found = claims.overlapping("t", claim(one))
    claims.remove(other)
    assert claims.overlapping("t", claim(one)) == (frozenset(), frozenset())
    return found


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("10.1.1.0/24", "10.1.1.0/24", True),
        ("10.1.1.0/16", "10.1.2.0/24", True),
        ("10.1.1.0/24", "10.1.2.0/24", False),
        ("20.1.1.10-20.1.1.45/24", "20.1.1.46-20.1.1.100/24", False),
        ("20.1.1.10-20.1.1.45/24", "20.1.1.45-20.1.1.100/24", True),
        # the original takes the first for 10.1.1.200-10.1.1.255
        ("10.1.1.200/24", "10.1.1.0-10.1.1.100/24", True),
    ],
)
def test_overlap(one: str, other: str, *, overlap: bool) -> None:
    first, second = a_network(one), a_network(other)
    assert overlaps(first, second) == (frozenset({"t:n"} if overlap else ()), frozenset())
    assert overlaps(second, first) == overlaps(first, second)


def test_families_are_told_apart() -> None:
    one = a_network("10.1.1.0/24", "2001:db8::/64")
    other = a_network("10.2.1.0/24", "2001:db8::/32")
    assert overlaps(one, other) == Overlaps(frozenset(), frozenset({"t:n"}))
    assert overlaps(one, a_network("10.1.0.0/16")) == Overlaps(frozenset({"t:n"}), frozenset())


def test_tenants_do_not_see_each_other() -> None:
    assert not any(overlaps(a_network("10.1.1.0/24"), a_network("10.1.1.0/24", tenant="u")))


def test_an_ipv6_subnet_is_kept_as_written_unless_it_has_host_bits() -> None:
    assert claim(a_network("10.1.1.0/24", "2001:DB8:0::/64")).text6 == "2001:DB8:0::"
    claimed = claim(a_network("10.1.1.0/24", "2001:db8::5/64"))
    assert claimed.text6 == "2001:db8::"
    assert claimed.v6 is not None
    assert claimed.v6.base == ipv6("2001:db8::")


@pytest.mark.parametrize(
    ("subnet", "subnet6", "text"),
    [
        ("10.1.1.0", "", "subnet string invalid format"),
        ("10.1.1.0/24", "2001:db8::", "ipv6Subnet string invalid format"),
    ],
)
def test_what_cannot_be_read_is_refused(subnet: str, subnet6: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        claim(a_network(subnet, subnet6))
    with pytest.raises(ValueError, match=f"^{text}$"):
        SubnetClaims().add(a_network(subnet, subnet6))
