"""The rules for state records: networks, groups, endpoints, services, BGP, docker networks.

The original's records have our field names, so most are decoded as they are (`state.codec`). Here
are the exceptions: fields that older releases lack, values that its defects leave behind, and
records whose network is gone. Source: docs/original/netmaster-state.md.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from core import ids, keys
from core.addresses import ipv4, ipv4_text, ipv6, ipv6_text, subnet4
from core.collections import bitset
from core.ids import EndpointKey, GroupKey, HostLabel, NetworkId, NetworkName, TenantName
from netmaster.ipam.group_ids import LAST_ID, GroupIds
from netmaster.takeover.draft import Draft, Found
from netmaster.takeover.source import Fields, TakeoverSource
from state import codec
from state.records import (
    DEFAULT_PRIVATE_SUBNET,
    Encap,
    EndpointRecord,
    GroupRecord,
    NetworkRecord,
    NetworkType,
    Record,
)

NO_NETWORK: Final = "its network is gone"
_OF_NONE: Final = "native-intf"
"""What the original calls the container of an endpoint that has none."""

_Decoder = Callable[[str, bytes], Found]


def translate(source: TakeoverSource, draft: Draft) -> None:
    """Add all records of the original's to a draft."""
    _settings(source, draft)
    for key, fields in source.of(keys.NETWORKS).items():
        _network(draft, key, fields)
    _check_tags(draft)
    for key, fields in source.of(keys.GROUPS).items():
        _group(draft, key, fields)
    _number_groups(draft)
    homes = {epid: HostLabel(label) for label, all_ in source.locals.items() for epid in all_}
    for key, fields in source.of(keys.ENDPOINTS).items():
        _endpoint(draft, key, fields, homes)
    _others(source, draft)


def _settings(source: TakeoverSource, draft: Draft) -> None:
    for key, fields in source.of(keys.GLOBAL_CONFIG).items():
        settings = _decoded(draft, key, fields, codec.decode_global)
        if settings is not None:
            # The first generation had neither; these are the values it worked with.
            draft.settings = replace(
                settings,
                arp_mode=settings.arp_mode or "proxy",
                pvt_subnet=settings.pvt_subnet or DEFAULT_PRIVATE_SUBNET,
            )
    for key, fields in source.of(keys.TAG_RANGES).items():
        draft.ranges = _decoded(draft, key, fields, codec.decode_tag_ranges)


def _network(draft: Draft, key: str, fields: Fields) -> None:
    nid = NetworkId(keys.after(keys.NETWORKS, key))
    whole = draft.decoded(key, lambda: _whole_range(fields))
    if whole is None:
        return
    network = _decoded(
        draft,
        key,
        {
            **fields,
            "nwType": fields.get("nwType") or NetworkType.DATA,
            "networkTag": fields.get("networkTag") or nid,
            "ipAddrRange": fields.get("ipAddrRange") or whole,
        },
        codec.decode_network,
    )
    marked = draft.decoded(key, lambda: bitset.decode(fields.get("ipAllocMap") or ""))
    if network is not None and marked is not None:
        draft.networks[nid] = network
        draft.marked[nid] = marked


def _whole_range(fields: Fields) -> str:
    subnet = subnet4(ipv4(fields.get("subnetIP") or ""), int(fields.get("subnetLen") or 0))
    return f"{ipv4_text(subnet.base)}-{ipv4_text(subnet.last)}"


def _check_tags(draft: Draft) -> None:
    """Refuse two networks with one VLAN or VNI, and make configured tags unique."""
    segments: dict[tuple[Encap, str, int], NetworkId] = {}
    tags: dict[str, NetworkId] = {}
    for nid, network in draft.networks.items():
        for what, number in _numbers(network):
            first = segments.setdefault((network.encap, what, number), nid)
            if first != nid:
                text = f"it has the {what} {number} of network {first}"
                draft.refuse(keys.network(nid), text, "delete one of the two in the original")
        if tags.setdefault(network.network_tag, nid) != nid:
            other = tags[network.network_tag]
            draft.change(
                keys.network(nid),
                f"network {other} has the tag {network.network_tag} too: its tag becomes {nid}",
            )
            draft.networks[nid] = replace(network, network_tag=nid)


def _numbers(network: NetworkRecord) -> list[tuple[str, int]]:
    if network.encap is Encap.VLAN:
        return [("VLAN", network.pkt_tag)]
    return [("VNI", network.ext_pkt_tag), ("local VLAN", network.pkt_tag)]


def _group(draft: Draft, key: str, fields: Fields) -> None:
    tag = fields.get("groupTag") or f"{fields.get('groupName')}.{fields.get('tenantName')}"
    filled = {**fields, "groupTag": tag, "epgIpAllocMap": fields.get("epgIpAllocMap") or _EMPTY}
    group = _decoded(draft, key, filled, codec.decode_group)
    marked = draft.decoded(key, lambda: bitset.decode(filled["epgIpAllocMap"]))
    if group is None or marked is None:
        return
    if network_of(group) not in draft.networks:
        draft.leave_out(key, NO_NETWORK)
        return
    same = [one for one in draft.groups.values() if one.group_tag == group.group_tag]
    if same:
        tag = f"{group.name}.{group.tenant}"
        text = f"group {same[0].key} has the tag {group.group_tag} too: its tag becomes {tag}"
        draft.change(key, text)
        group = replace(group, group_tag=tag)
    draft.groups[group.key] = group
    if group.ip_pool:
        draft.marked[group.key] = marked


_EMPTY: Final = bitset.BitSet().encode()


def network_of(group: GroupRecord) -> NetworkId:
    """Return the id of a group's network."""
    return ids.network_id(NetworkName(group.network), TenantName(group.tenant))


def _number_groups(draft: Draft) -> None:
    """Give groups new ids where the original's are used twice or do not fit into flows."""
    # The original counts from 1 again after each start, whatever ids are in use.
    free = GroupIds()
    doubtful: list[GroupKey] = []
    holders: dict[int, GroupKey] = {}
    for key, group in draft.groups.items():
        number = group.group_id
        if not 1 <= number <= LAST_ID or holders.setdefault(number, key) != key:
            doubtful.append(key)
        else:
            free.take(number)
    free.last = max(holders, default=0)
    for key in doubtful:
        group, fresh = draft.groups[key], free.following()
        if fresh is None:
            draft.refuse(keys.group(key), "all ids of groups are in use")
            continue
        free.take(fresh)
        free.last = fresh
        holder = holders.get(group.group_id)
        why = f"group {holder} has it too" if holder else f"ids go up to {LAST_ID}"
        text = f"its id {group.group_id} becomes {fresh}: {why}"
        draft.change(keys.group(key), text)
        draft.groups[key] = replace(group, group_id=fresh)


def _endpoint(draft: Draft, key: str, fields: Fields, homes: Mapping[str, HostLabel]) -> None:
    endpoint = _decoded(draft, key, fields, codec.decode_endpoint)
    if endpoint is None:
        return
    if endpoint.network not in draft.networks:
        draft.leave_out(key, NO_NETWORK)
        return
    endpoint = _named(draft, key, endpoint)
    endpoint = _at_home(draft, key, endpoint, homes)
    endpoint = _in_group(draft, key, endpoint)
    if endpoint.ipv6_address:
        address = draft.decoded(key, partial(_canonical6, endpoint.ipv6_address))
        endpoint = replace(endpoint, ipv6_address=address or "")
    draft.endpoints[endpoint.key] = endpoint


def _canonical6(text: str) -> str:
    return ipv6_text(ipv6(text))


def _named(draft: Draft, key: str, endpoint: EndpointRecord) -> EndpointRecord:
    """Give an endpoint without a container an id and its key, or it could not be deleted."""
    wanted = ids.endpoint_key(endpoint.network, endpoint.endpoint_id)
    if wanted == endpoint.key:
        return endpoint
    name = endpoint.key.removeprefix(f"{endpoint.network}-")
    if endpoint.endpoint_id or not name.endswith(_OF_NONE):
        draft.refuse(key, f"its network and endpointID make {wanted}", "delete it in the original")
        return endpoint
    wanted = ids.endpoint_key(endpoint.network, name)
    draft.change(key, f"it has no container id: it becomes {wanted}")
    return replace(endpoint, key=wanted, endpoint_id=name)


def _at_home(
    draft: Draft, key: str, endpoint: EndpointRecord, homes: Mapping[str, HostLabel]
) -> EndpointRecord:
    """Name an endpoint's host by its label: plugins of the original wrote its host name."""
    home = homes.get(endpoint.key, endpoint.homing_host)
    if home == endpoint.homing_host:
        return endpoint
    text = f"its host {endpoint.homing_host!r} becomes {home}, whose agent has its port"
    draft.change(key, text)
    return replace(endpoint, homing_host=home)


def _in_group(draft: Draft, key: str, endpoint: EndpointRecord) -> EndpointRecord:
    if not endpoint.group_key:
        return endpoint
    group = draft.groups.get(GroupKey(endpoint.group_key))
    if group is None:
        draft.change(key, f"its group {endpoint.group_key} is gone: it has none")
        return replace(endpoint, group_key="", group_id=0)
    if endpoint.group_id != group.group_id:
        text = f"its group id {endpoint.group_id} becomes {group.group_id}, that of its group"
        draft.change(key, text)
    return replace(endpoint, group_id=group.group_id)


def _others(source: TakeoverSource, draft: Draft) -> None:
    for key, fields in source.of(keys.SERVICE_LBS).items():
        service = _decoded(draft, key, fields, codec.decode_service_lb)
        if service is None:
            continue
        if ids.network_id(service.network, service.tenant) not in draft.networks:
            draft.leave_out(key, NO_NETWORK)
        else:
            draft.services[service.key] = service
    for key, fields in source.of(keys.BGPS).items():
        peering = _decoded(draft, key, fields, codec.decode_bgp)
        if peering is not None:
            draft.bgps[peering.hostname] = peering
    for key, fields in source.of(keys.DOCKNETS).items():
        docknet = _decoded(draft, key, fields, codec.decode_docknet)
        if docknet is None:
            continue
        if ids.network_id(docknet.network, docknet.tenant) not in draft.networks:
            draft.leave_out(key, NO_NETWORK)
        else:
            draft.docknets[docknet.id] = docknet


def _decoded(
    draft: Draft, key: str, fields: Mapping[str, Any], decode: _Decoder[Found]
) -> Found | None:
    return draft.decoded(key, lambda: decode(key, json.dumps(fields).encode()))


def written(draft: Draft) -> dict[str, Record]:
    """Return the records of a draft by their keys in the store."""
    records: dict[str, Record] = dict(draft.grants)
    if draft.settings is not None:
        records[keys.GLOBAL_CONFIG] = draft.settings
    if draft.ranges is not None:
        records[keys.TAG_RANGES] = draft.ranges
    records |= {keys.network(nid): one for nid, one in draft.networks.items()}
    records |= {keys.group(key): one for key, one in draft.groups.items()}
    records |= {keys.endpoint(EndpointKey(key)): one for key, one in draft.endpoints.items()}
    records |= {keys.service_lb(key): one for key, one in draft.services.items()}
    records |= {keys.bgp(name): one for name, one in draft.bgps.items()}
    records |= {keys.docknet(one.id): one for one in draft.docknets.values()}
    return records
