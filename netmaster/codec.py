"""Encodes and decodes everything the leader stores. Pure.

State records are `state.codec`'s. A REST object is stored as the original's JSON, with its links
and without link-sets, which `netmaster.indexes` derives. The key alone says what it holds.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

from pydantic_core import to_json

from contivmodel import wire
from contivmodel.kinds import KINDS
from contivmodel.objects import RestObject
from core import keys
from core.errors import Invalid
from core.ids import GroupName, HostLabel, NetworkName, TenantName
from core.outside_json import read_json
from netmaster.stored import (
    BlockLease,
    ChangedObject,
    ChangeRecord,
    CleanupCategory,
    EndpointCleanup,
    GroupIdCursor,
    HostAbsence,
    HostDrain,
    KeptAnswer,
    PendingDockerNetwork,
    PendingProfile,
    Stored,
)
from state import codec, lineage, schema
from state.lineage import Lineage
from state.reading import RecordFields

UNREAD: Final = frozenset(
    {
        keys.VLAN_RESOURCE,
        keys.VLAN_RESOURCE_OPER,
        keys.VXLAN_RESOURCE,
        keys.VXLAN_RESOURCE_OPER,
        keys.GLOBAL_OPER,
    }
)
"""Keys that are written for other readers; the leader derives their content and never reads it."""


_OF_THE_STORE: Final = (schema.SchemaStamp, Lineage)
_AS_THEY_ARE: Final = (
    EndpointCleanup,
    HostAbsence,
    HostDrain,
    BlockLease,
    KeptAnswer,
    ChangeRecord,
    PendingProfile,
    PendingDockerNetwork,
)
"""Types that are stored with their fields as they are named here."""
# Tuples, made once: a union of types (`A | B`) is built anew each time that it is evaluated.


def is_leaders(key: str) -> bool:
    """Return whether only the leader writes a key."""
    return key.startswith(keys.LEADER_PREFIXES)


def encode(stored: Stored) -> bytes:
    """Return the bytes to store."""
    if isinstance(stored, bytes):
        return stored
    if isinstance(stored, RestObject):
        return wire.dumps(stored)
    if isinstance(stored, GroupIdCursor):
        return json.dumps({"last": stored.last}).encode()
    if isinstance(stored, _OF_THE_STORE):
        return _encode_of_the_store(stored)
    if isinstance(stored, _AS_THEY_ARE):
        return to_json(stored)
    return codec.encode(stored)


def _encode_of_the_store(stored: schema.SchemaStamp | Lineage) -> bytes:
    return lineage.encode(stored) if isinstance(stored, Lineage) else schema.encode(stored)


def decode(key: str, value: bytes) -> Stored:
    """Decode the value of a key of the leader; Invalid, naming the key, if that is impossible."""
    record = codec.decode(key, value)  # first: most keys are of records
    if record is not None:
        return record
    if key in UNREAD:
        return value
    for prefix, decoder in _OWN.items():
        if key.startswith(prefix):
            return decoder(key, value)
    raise Invalid(f"key {key}: not one this netmaster knows; a newer one may have written it")


def _decode_object(key: str, value: bytes) -> RestObject:
    try:
        kind, object_key = keys.parse_obj(key)
        stored = wire.decode(KINDS[kind], value)
    except KeyError as exc:
        raise Invalid(f"key {key}: objects of this type are not known here") from exc
    except (ValueError, Invalid) as exc:
        raise Invalid(f"key {key}: {exc}") from exc
    if stored.object_key() != object_key:
        raise Invalid(f"key {key}: holds the object {stored.object_key()}")
    return stored


def _decode_cleanup(key: str, value: bytes) -> EndpointCleanup:
    fields = RecordFields.parse(key, value)
    return EndpointCleanup(
        tenant=TenantName(fields.text("tenant")),
        category=fields.choice("category", CleanupCategory),
        name=fields.text("name"),
        before=fields.number("before"),
    )


def _decode_docker_network(key: str, value: bytes) -> PendingDockerNetwork:
    fields = RecordFields.parse(key, value)
    effect = PendingDockerNetwork(
        tenant=TenantName(fields.text("tenant")),
        network=NetworkName(fields.text("network")),
        group=GroupName(fields.text("group")) or None,
    )
    if effect.key != key:
        raise Invalid(f"key {key}: holds the pending effect on {effect.id}")
    return effect


def _decode_absence(key: str, value: bytes) -> HostAbsence:
    fields = RecordFields.parse(key, value)
    label = keys.after(keys.ABSENCES, key)
    fields.expect("label", label)
    return HostAbsence(
        HostLabel(label),
        fields.real("since"),
        fields.number("rev"),
        fields.real("seconds"),
        fields.text("renewal"),
    )


def _decode_drain(key: str, value: bytes) -> HostDrain:
    fields = RecordFields.parse(key, value)
    label = keys.after(keys.DRAINS, key)
    fields.expect("label", label)
    return HostDrain(HostLabel(label), fields.real("since"))


def _decode_block_lease(key: str, value: bytes) -> BlockLease:
    fields = RecordFields.parse(key, value)
    label = keys.after(keys.ADDRESS_BLOCKS, key)
    fields.expect("label", label)
    return BlockLease(
        HostLabel(label), fields.text("lease"), fields.number("number"), fields.real("seconds")
    )


def _decode_answer(key: str, value: bytes) -> KeptAnswer:
    fields = RecordFields.parse(key, value)
    fields.expect("digest", keys.after(keys.ANSWERS, key))
    return KeptAnswer(
        digest=fields.text("digest"),
        request=fields.text("request"),
        status=fields.number("status"),
        key=fields.text("key"),
        etag=fields.text("etag"),
        body=fields.text("body"),
        at=fields.real("at"),
        client=fields.text("client"),
    )


def _decode_change(key: str, value: bytes) -> ChangeRecord:
    fields = RecordFields.parse(key, value)
    try:
        objects = tuple(
            ChangedObject(
                plural=one["plural"],
                key=one["key"],
                action=one["action"],
                fields=tuple((str(name), str(was), str(now)) for name, was, now in one["fields"]),
            )
            for one in read_json(value)["objects"]
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise Invalid(f"key {key}: not a change: {value[:80]!r}") from exc
    return ChangeRecord(
        number=fields.number("number"),
        at=fields.real("at"),
        who=fields.text("who"),
        address=fields.text("address"),
        objects=objects,
        omitted=fields.number("omitted"),
    )


def _decode_cursor(key: str, value: bytes) -> GroupIdCursor:
    try:
        last = read_json(value)["last"]
    except (ValueError, TypeError, KeyError) as exc:
        raise Invalid(f"key {key}: not a cursor: {value[:80]!r}") from exc
    if type(last) is not int:
        raise Invalid(f"key {key}: not a cursor: {value[:80]!r}")
    return GroupIdCursor(last=last)


_OWN: Final[Mapping[str, Callable[[str, bytes], Stored]]] = {
    keys.OBJECTS: _decode_object,
    keys.SCHEMA: lambda _, value: schema.decode(value),
    keys.LINEAGE: lambda _, value: lineage.decode(value),
    keys.GROUP_ID_CURSOR: _decode_cursor,
    keys.ACI_LAUNCHES: lambda key, _: PendingProfile(keys.after(keys.ACI_LAUNCHES, key)),
    keys.DOCKNET_DOUBTS: _decode_docker_network,
    keys.CLEANUPS: _decode_cleanup,
    keys.ABSENCES: _decode_absence,
    keys.DRAINS: _decode_drain,
    keys.ADDRESS_BLOCKS: _decode_block_lease,
    keys.ANSWERS: _decode_answer,
    keys.CHANGES: _decode_change,
}
"""Prefix or key -> decoder, for all but state records."""
