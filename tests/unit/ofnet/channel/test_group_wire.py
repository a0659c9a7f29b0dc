"""Groups and the flushing of connections, as `ovs-ofctl` 3.1 sends them."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from ofnet.channel import group_wire, wire
from ofnet.openflow.actions import Bucket, Conntrack, Nat, SelectGroup
from ofnet.translations import Translated

BUCKET = Bucket(24, (Conntrack(12, 49153, commit=True, nat=Nat("dst", IPv4Address(1), 8080)),))


@pytest.mark.parametrize(
    ("ended", "recorded"),
    [
        (
            Translated(49153, 6, IPv4Address("10.0.0.3"), 8080, IPv4Address("10.0.0.100"), 80),
            (
                "00002320 00000020 06000000 00000000 00000028 00000000 00010014 00000000 00000000"
                "0000ffff 0a000064 00000000 00030008 00500000 00010028 00000000 00000014 00000000"
                "00000000 0000ffff 0a000003 00000000 00020008 1f900000 00020008 c0010000"
            ),
        ),
        (
            Translated(49153, 17, IPv6Address("fd00::3"), 8080, IPv6Address("fd00::100"), 80),
            (
                "00002320 00000020 11000000 00000000 00000028 00000000 00010014 fd000000 00000000"
                "00000000 00000100 00000000 00030008 00500000 00010028 00000000 00000014 fd000000"
                "00000000 00000000 00000003 00000000 00020008 1f900000 00020008 c0010000"
            ),
        ),
        (
            Translated(49153, 6, IPv4Address("10.0.0.3"), 8080),
            (
                "00002320 00000020 06000000 00000000 00010028 00000000 00000014 00000000 00000000"
                "0000ffff 0a000003 00000000 00020008 1f900000 00020008 c0010000"
            ),
        ),
    ],
)
def test_connections_are_forgotten_as_by_ovs_ofctl(ended: Translated, recorded: str) -> None:
    found = group_wire.connection_flush(ended, 7)
    assert found[8:] == bytes.fromhex(recorded)
    assert found[:8] == wire.message(wire.EXPERIMENTER, 7, found[8:])[:8]


def test_a_group_has_its_buckets() -> None:
    group = SelectGroup((BUCKET, BUCKET))
    found = group_wire.group_add(group, 7)
    assert found[:4] == bytes([4, 15]) + len(found).to_bytes(2, "big")
    assert found[8:16] == b"\x80\x00\x01\x00" + group.id.to_bytes(4, "big")
    length = (len(found) - 16) // 2
    assert found[16:18] == length.to_bytes(2, "big")
    assert found[16 : 16 + length] == found[16 + length :]


def test_a_deleted_group_is_named_alone() -> None:
    assert group_wire.group_delete(9, 7)[8:] == b"\x00\x02\x01\x00" + (9).to_bytes(4, "big")


def test_equal_groups_have_one_number() -> None:
    other = Bucket(25, BUCKET.actions)
    assert SelectGroup((BUCKET,)).id == SelectGroup((BUCKET,)).id != SelectGroup((other,)).id


def reported(*numbers: int, more: bool = False) -> bytes:
    groups = [b"\x00\x08\x01\x00" + one.to_bytes(4, "big") for one in numbers]
    return b"\x00\x07" + int(more).to_bytes(2, "big") + bytes(4) + b"".join(groups)


def test_groups_are_read() -> None:
    assert group_wire.groups(reported(3, 9)) == ([3, 9], False)
    assert group_wire.groups(reported(more=True)) == ([], True)


@pytest.mark.parametrize(
    "body",
    [b"\x00\x01" + bytes(6), reported(3)[:-1], reported(3) + b"\x00\x04", b"\x00\x07" + bytes(3)],
)
def test_what_contradicts_itself_is_refused(body: bytes) -> None:
    with pytest.raises(wire.MalformedOpenflow):
        group_wire.groups(body)
