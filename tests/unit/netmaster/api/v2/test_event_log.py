"""What a master keeps of the changes: whole, in order, within bounds."""

import json

from contivmodel.objects import Policy, Tenant
from core import keys
from netmaster import codec
from netmaster.api.v2.event_log import EventLog
from objdb.api import Delta, Entry, Snapshot


def put(rev: int, *objects: Tenant | Policy) -> Delta:
    entries = (Entry(keys.obj(o.kind, o.key), codec.encode(o), rev) for o in objects)
    return Delta(rev, tuple(entries), ())


def tenant(name: str) -> Tenant:
    return Tenant(key=name, tenant_name=name)


def log_of(*items: Snapshot | Delta, **bounds: int) -> EventLog:
    log = EventLog(**bounds)
    for item in items:
        log.take(item)
    return log


def test_a_transaction_is_one_event() -> None:
    policy = Policy(key="blue:p", tenant_name="blue", policy_name="p")
    log = log_of(Snapshot(5, {}), put(7, tenant("blue"), policy))
    (event,) = log.behind(5)
    assert (event.revision, log.first, log.last) == (7, 5, 7)
    assert [(c.plural, c.key, c.tenant) for c in event.changes] == [
        ("tenants", "blue", "blue"),
        ("policys", "blue:p", "blue"),
    ]
    told = json.loads(event.changes[1].text)
    assert (told["type"], told["object"]["policyName"]) == ("put", "p")
    assert log.behind(7) == []


def test_a_deletion_tells_the_key_alone() -> None:
    log = log_of(Snapshot(1, {}), Delta(2, (), (keys.obj("aciGw", "aciGw"),)))
    (change,) = log.behind(1)[0].changes
    assert json.loads(change.text) == {"kind": "aciGws", "key": "aciGw", "type": "delete"}
    assert change.tenant == ""


def test_the_oldest_events_go() -> None:
    log = log_of(Snapshot(1, {}), *(put(rev, tenant("t")) for rev in range(2, 9)), most_events=3)
    assert (log.first, log.last) == (5, 8)
    assert [event.revision for event in log.behind(log.first)] == [6, 7, 8]
    small = log_of(Snapshot(1, {}), put(2, tenant("t")), put(3, tenant("t")), most_bytes=10)
    assert (small.first, small.last, small.behind(3)) == (3, 3, [])


def test_a_snapshot_starts_anew() -> None:
    log = log_of(Snapshot(1, {}), put(2, tenant("t")), Snapshot(9, {}))
    assert (log.first, log.last, log.restarts, log.behind(9)) == (9, 9, 2, [])


def test_what_cannot_be_read_is_no_change() -> None:
    strange = Entry(keys.OBJECTS + "newer/x", b"{}", 2)
    broken = Entry(keys.obj("tenant", "t"), b"{", 2)
    log = log_of(Snapshot(1, {}), Delta(2, (strange, broken), (keys.OBJECTS + "odd",)))
    assert [event.changes for event in log.behind(1)] == [()]
