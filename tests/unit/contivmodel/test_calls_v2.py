"""What clients of API v2 read: events in parts of any size, and objects that are followed."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from contivmodel.calls_v2 import EventReader, Events, Followed, ObjectEvent, Packet
from contivmodel.objects import Tenant

STREAM = (
    b": a comment\r\n"
    b'event: ready\r\nid: t.3\r\ndata: {"revision":3}\r\n\r\n'
    b": alive\n\n"
    b'event: changes\nid: t.4\ndata: {"changes":[{"kind":"tenants","key":"bl\xc3\xbce"}]}\n\n'
    b'event: reset\nid: u.9\ndata: {"revision":9}\n\n'
    b"id: u.10\n"
)
EVENTS = [
    Events(id="t.3", revision=3),
    Events(id="t.4", revision=4, changes=(ObjectEvent(plural="tenants", key="blüe", obj=None),)),
    Events(id="u.9", revision=9, reset=True),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_a_stream_may_come_in_any_parts(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]
    reader = EventReader()
    parts = (STREAM[begin:end] for begin, end in pairwise(at))
    assert [event for part in parts for event in reader.read(part)] == EVENTS


def told(name: str | None, *, revision: int, reset: bool = False) -> Events:
    """Return the event that a tenant is there; None: that it is not."""
    obj = None if name is None else json.loads(f'{{"tenantName":"{name}","key":"t"}}')
    changes = (ObjectEvent(plural="tenants", key="t", obj=obj),)
    return Events(id=f"a.{revision}", revision=revision, changes=changes, reset=reset)


def test_objects_are_followed() -> None:
    followed = Followed(Tenant)
    begin = Events(id="a.1", revision=1)
    assert followed.lacks(begin)
    assert not followed.took(begin)
    assert not followed.lacks(told("t", revision=2))
    assert followed.took(told("t", revision=2))
    assert followed.found["t"].tenant_name == "t"
    assert followed.took(told(None, revision=3))
    assert followed.found == {}
    other = Events(id="a.4", revision=4, changes=(ObjectEvent(plural="rules", key="r", obj=None),))
    assert not followed.took(other)
    assert followed.after == "a.4"


def test_whoever_could_not_read_all_objects_is_told_again() -> None:
    followed = Followed(Tenant)
    followed.took(Events(id="a.1", revision=1))
    reset = Events(id="b.1", revision=1, reset=True)
    assert followed.lacks(reset)  # to read them fails here
    assert followed.after == "a.1"


def test_a_packet_is_asked_for_by_what_was_given() -> None:
    assert Packet(src="a b", dst="c").query() == "src=a+b&dst=c&proto=icmp&port=0&family=4"
    whole = Packet(src="a", dst="c", proto="tcp", port=80, sport=9, family=6, tenant="t")
    assert whole.query() == "src=a&dst=c&proto=tcp&port=80&family=6&sport=9&tenant=t"
