"""Records to bytes and back, with the original's JSON names and fields.

`encode` writes all fields of the original's record. `decode` selects the record type by the key,
from the table `DECODERS` at the end. Used by `state.watch` and netmaster.
"""

# The original's names stay, odd as they are ("DSCP" beside "networkName", "tenantname"): external
# tools read these keys, and an upgrade from the original finds its own records. No other module
# spells them.
#
# Counters and bitmaps that the original rewrites with each endpoint are written once, with the
# value they have at creation (`state.creation`). A write per endpoint would make all endpoints of a
# network change the same key, so creations would conflict with each other. The true values are
# computed (`state.derive`).
#
# Where a record repeats its id, the decoder compares it with the key. A record under a wrong key is
# refused: key and fields would name two different objects.

from collections.abc import Callable
from sys import intern
from typing import Any, Final

from pydantic_core import to_json

from core import keys
from core.addresses import parse_span
from core.collections import bitset
from core.errors import Invalid
from core.ids import EndpointKey, GroupName, HostLabel, NetworkId, NetworkName, TenantName
from state import creation
from state.reading import RecordFields
from state.records import (
    BgpRecord,
    DocknetRecord,
    Encap,
    EndpointRecord,
    GlobalRecord,
    GrantOwner,
    GrantRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    NetworkType,
    Record,
    ServiceInstance,
    ServiceRecord,
    TagRangesRecord,
)


def encode(record: Record | ServiceInstance) -> bytes:
    """Return a record's bytes."""
    return to_json(_ENCODERS[type(record)](record))


def decode(key: str, value: bytes) -> Record | None:
    """Return the record stored under a key; None if the key holds no record.

    Raises Invalid, which names the key, for a malformed value or one of another key.
    """
    decoder = decoder_of(key)
    return decoder(key, value) if decoder else None


def tag_resources(ranges: TagRangesRecord) -> dict[str, bytes]:
    """Return the VLAN and VXLAN resource records and gstate.Oper, with all tags free.

    Raises Invalid for malformed ranges.
    """
    start = creation.vxlan_start(ranges.vxlans)
    vlans = creation.tag_set(ranges.vlans, creation.VLANS).encode()
    vxlans = creation.tag_set(ranges.vxlans, creation.VXLANS, offset=start).encode()
    local = creation.tag_set(creation.LOCAL_VLANS, creation.VLANS).encode()
    one = {"id": "global"}
    values: dict[str, dict[str, Any]] = {
        keys.VLAN_RESOURCE: one | {"vlans": vlans},
        keys.VLAN_RESOURCE_OPER: one | {"freeVLANs": vlans},
        keys.VXLAN_RESOURCE: one
        | {"vxlans": vxlans, "LocalVLANs": local, "FreeVXLANsStart": start},
        keys.VXLAN_RESOURCE_OPER: one | {"freeVXLANs": vxlans, "freeLocalVLANs": local},
        keys.GLOBAL_OPER: {"id": "", "defaultNetwork": "", "freeVXLANsStart": start},
    }
    return {key: to_json(value) for key, value in values.items()}


def decode_network(key: str, value: bytes) -> NetworkRecord:
    """Return the network record of a key under `keys.NETWORKS`."""
    fields = RecordFields.parse(key, value)
    fields.expect("id", keys.after(keys.NETWORKS, key))
    first, _, last = fields.text("ipAddrRange").partition("-")
    network = NetworkRecord(
        tenant=TenantName(fields.text("tenant")),
        name=NetworkName(fields.text("networkName")),
        type=fields.choice("nwType", NetworkType),
        encap=fields.choice("pktTagType", Encap),
        pkt_tag=fields.number("pktTag"),
        ext_pkt_tag=fields.number("extPktTag"),
        subnet=fields.text("subnetIP"),
        subnet_len=fields.number("subnetLen"),
        gateway=fields.text("gateway"),
        first=first,
        last=last,
        ipv6_subnet=fields.text("ipv6SubnetIP"),
        ipv6_subnet_len=fields.number("ipv6SubnetLen"),
        ipv6_gateway=fields.text("ipv6Gateway"),
        network_tag=fields.text("networkTag"),
        bounded=_bounded(fields, first, last),
        ipv6_first=fields.text("firstFamily") == "ipv6",
        exclude=_exclude(fields),
    )
    if network.id != fields.text("id"):
        raise Invalid(f"record {key}: tenant and networkName make {network.id}")
    return network


def decode_endpoint(key: str, value: bytes) -> EndpointRecord:
    """Return the endpoint record of a key under `keys.ENDPOINTS`."""
    fields = RecordFields.parse(key, value)
    epid = keys.after(keys.ENDPOINTS, key)
    fields.expect("id", epid)
    # All texts in one call: endpoints are the most numerous records, and their decoding dominates
    # the start of a leader or an agent. What many endpoints have in common is interned: one copy
    # of it, which goes with the last of them. An endpoint's names are often one text of 64
    # characters, which is kept once.
    network, endpoint_id, service, group, ip, ip6, mac, host, intf, vtep, container, name = (
        fields.each_text(_ENDPOINT_TEXTS)
    )
    return EndpointRecord(
        key=EndpointKey(epid),
        network=NetworkId(intern(network)),
        endpoint_id=endpoint_id,
        service_name=intern(service),
        group_id=fields.number("endpointGroupId"),
        group_key=intern(group),
        ip_address=ip,
        ipv6_address=ip6,
        mac_address=mac,
        homing_host=HostLabel(intern(host)),
        intf_name=intf,
        vtep_ip=intern(vtep),
        labels=fields.labels("labels"),
        container_id=endpoint_id if container == endpoint_id else container,
        common_name=endpoint_id if name == endpoint_id else name,
    )


_ENDPOINT_TEXTS: Final = (
    "netID",
    "endpointID",
    "serviceName",
    "endpointGroupKey",
    "ipAddress",
    "ipv6Address",
    "macAddress",
    "homingHost",
    "intfName",
    "vtepIP",
    "containerId",
    "epCommonName",
)


def decode_group(key: str, value: bytes) -> GroupRecord:
    """Return the endpoint group record of a key under `keys.GROUPS`."""
    fields = RecordFields.parse(key, value)
    fields.expect("id", keys.after(keys.GROUPS, key))
    group = GroupRecord(
        tenant=TenantName(fields.text("tenantName")),
        name=GroupName(fields.text("groupName")),
        network=NetworkName(fields.text("networkName")),
        group_id=fields.number("endpointGroupId"),
        encap=fields.choice("pktTagType", Encap),
        pkt_tag=fields.number("pktTag"),
        ext_pkt_tag=fields.number("extPktTag"),
        dscp=fields.number("DSCP"),
        bandwidth=fields.text("Bandwidth"),
        burst=fields.number("Burst"),
        ip_pool=fields.text("IPPool"),
        group_tag=fields.text("groupTag"),
        subnet_len=_subnet_len(fields),
        exclude=_exclude(fields),
    )
    if group.key != fields.text("id"):
        raise Invalid(f"record {key}: its id is not {group.key}, as groupName and tenantName say")
    return group


def decode_service_lb(key: str, value: bytes) -> ServiceRecord:
    """Return the service record of a key under `keys.SERVICE_LBS`."""
    fields = RecordFields.parse(key, value)
    fields.expect("id", keys.after(keys.SERVICE_LBS, key))
    service = ServiceRecord(
        tenant=TenantName(fields.text("tenantname")),
        name=fields.text("servicename"),
        network=NetworkName(fields.text("subnet")),
        ports=fields.texts("ports"),
        selectors=fields.labels("selectors") or {},
        ip_address=fields.text("ipaddress"),
    )
    if service.key != fields.text("id"):
        raise Invalid(
            f"record {key}: its id is not {service.key}, as servicename and tenantname say"
        )
    return service


def decode_bgp(key: str, value: bytes) -> BgpRecord:
    """Return the BGP record of a key under `keys.BGPS`."""
    fields = RecordFields.parse(key, value)
    fields.expect("hostname", keys.after(keys.BGPS, key))
    return BgpRecord(
        hostname=fields.text("hostname"),
        router_ip=fields.text("router-ip"),
        as_number=fields.text("as"),
        neighbor_as=fields.text("neighbor-as"),
        neighbor=fields.text("neighbor"),
        router_ipv6=fields.text("router-ipv6"),
        neighbor_ipv6=fields.text("neighbor-ipv6"),
    )


def decode_global(key: str, value: bytes) -> GlobalRecord:
    """Return GlobConfig."""
    fields = RecordFields.parse(key, value)
    return GlobalRecord(
        infra_type=fields.text("nw-infra-type"),
        fwd_mode=fields.text("fwd-mode"),
        arp_mode=fields.text("arp-mode"),
        pvt_subnet=fields.text("pvt-subnet"),
    )


def decode_tag_ranges(key: str, value: bytes) -> TagRangesRecord:
    """Return gstate.Cfg."""
    auto = RecordFields.parse(key, value).inner("auto")
    return TagRangesRecord(vlans=auto.text("VLANs"), vxlans=auto.text("VXLANs"))


def decode_docknet(key: str, value: bytes) -> DocknetRecord:
    """Return the docker network's record of a key under `keys.DOCKNETS`."""
    fields = RecordFields.parse(key, value)
    fields.expect("id", keys.after(keys.DOCKNETS, key))
    docknet = DocknetRecord(
        tenant=TenantName(fields.text("tenantName")),
        network=NetworkName(fields.text("networkName")),
        group=GroupName(fields.text("serviceName")) or None,
        uuid=fields.text("docknetUUID"),
    )
    if docknet.id != fields.text("id"):
        raise Invalid(f"record {key}: tenantName, networkName and serviceName make {docknet.id}")
    return docknet


def decode_grant(key: str, value: bytes) -> GrantRecord:
    """Return the grant of a key under `keys.GRANTS`."""
    fields = RecordFields.parse(key, value)
    return GrantRecord(
        owner=fields.choice("owner", GrantOwner),
        owner_id=fields.text("ownerID"),
        seq=fields.number("seq"),
        granted_at=fields.real("grantedAt"),
        reserved=fields.flag("reserved"),
        host=fields.text("host"),
        kept_for=fields.text("keptFor"),
        mac=fields.text("mac"),
        away=fields.real("away"),
    )


def decode_host(key: str, value: bytes) -> HostRecord:
    """Return the host record of a key under `keys.HOSTS`."""
    fields = RecordFields.parse(key, value)
    label = keys.after(keys.HOSTS, key)
    fields.expect("label", label)
    return HostRecord(
        label=HostLabel(label),
        control_ip=fields.text("controlIP"),
        vtep_ip=fields.text("vtepIP"),
        vxlan_port=fields.number("vxlanPort"),
        uplink_macs=fields.texts("uplinkMACs"),
        version=fields.text("version"),
        host_id=fields.text("hostID"),
        schema=fields.number("schema") or 1,
        addresses=fields.texts("addresses"),
        next_hops=fields.texts("nextHops"),
        answers_probes=fields.flag("answersProbes"),
        vtep_ip6=fields.text("vtepIP6"),
    )


def decode_service(key: str, value: bytes) -> ServiceInstance:
    """Return the service instance of a key under `keys.SERVICES`."""
    fields = RecordFields.parse(key, value)
    return ServiceInstance(
        service=fields.text("ServiceName"),
        address=fields.text("HostAddr"),
        port=fields.number("Port"),
        hostname=fields.text("Hostname"),
        role=fields.text("Role"),
        version=fields.text("Version"),
        ttl=fields.number("TTL"),
        schema=fields.number("Schema") or 1,
        addresses=fields.texts("Addresses"),
        next_hops=fields.texts("NextHops"),
        store=fields.texts("Store"),
    )


def _network(record: NetworkRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "tenant": record.tenant,
        "networkName": record.name,
        "nwType": record.type,
        "pktTagType": record.encap,
        "pktTag": record.pkt_tag,
        "extPktTag": record.ext_pkt_tag,
        "subnetIP": record.subnet,
        "subnetLen": record.subnet_len,
        "gateway": record.gateway,
        "ipAddrRange": f"{record.first}-{record.last}" if record.subnet else "",
        "epAddrCount": 0,
        "epCount": 0,
        "ipAllocMap": creation.network_map(record).encode(),
        "ipv6SubnetIP": record.ipv6_subnet,
        "ipv6SubnetLen": record.ipv6_subnet_len,
        "ipv6Gateway": record.ipv6_gateway,
        "ipv6AllocMap": creation.ipv6_map(record),
        "ipv6LastHost": "",
        "networkTag": record.network_tag,
        **({"firstFamily": "ipv6"} if record.ipv6_first else {}),
        **({"exclude": record.exclude} if record.exclude else {}),
    }


def _endpoint(record: EndpointRecord) -> dict[str, Any]:
    return {
        "id": record.key,
        "netID": record.network,
        "endpointID": record.endpoint_id,
        "serviceName": record.service_name,
        "endpointGroupId": record.group_id,
        "endpointGroupKey": record.group_key,
        "ipAddress": record.ip_address,
        "ipv6Address": record.ipv6_address,
        "macAddress": record.mac_address,
        "homingHost": record.homing_host,
        "intfName": record.intf_name,
        "vtepIP": record.vtep_ip,
        "labels": None if record.labels is None else dict(record.labels),
        "containerId": record.container_id,
        "epCommonName": record.common_name,
    }


def _group(record: GroupRecord) -> dict[str, Any]:
    return {
        "id": record.key,
        "groupName": record.name,
        "tenantName": record.tenant,
        "networkName": record.network,
        "endpointGroupId": record.group_id,
        "pktTagType": record.encap,
        "pktTag": record.pkt_tag,
        "extPktTag": record.ext_pkt_tag,
        "epCount": 0,
        "DSCP": record.dscp,
        "Bandwidth": record.bandwidth,
        "Burst": record.burst,
        "IPPool": record.ip_pool,
        "epgIpAllocMap": creation.group_map(record).encode(),
        "groupTag": record.group_tag,
        **({"exclude": record.exclude} if record.exclude else {}),
    }


def _global(record: GlobalRecord) -> dict[str, Any]:
    return {
        "id": "",
        "nw-infra-type": record.infra_type,
        "fwd-mode": record.fwd_mode,
        "arp-mode": record.arp_mode,
        "pvt-subnet": record.pvt_subnet,
    }


def _service_lb(record: ServiceRecord) -> dict[str, Any]:
    return {
        "id": record.key,
        "servicename": record.name,
        "tenantname": record.tenant,
        "subnet": record.network,
        "ports": record.ports,
        "selectors": dict(record.selectors),
        "ipaddress": record.ip_address,
        "providers": {},
    }


def _bgp(record: BgpRecord) -> dict[str, Any]:
    return {
        "id": record.hostname,
        "hostname": record.hostname,
        "router-ip": record.router_ip,
        "as": record.as_number,
        "neighbor-as": record.neighbor_as,
        "neighbor": record.neighbor,
        **({"router-ipv6": record.router_ipv6} if record.router_ipv6 else {}),
        **({"neighbor-ipv6": record.neighbor_ipv6} if record.neighbor_ipv6 else {}),
    }


def _tag_ranges(record: TagRangesRecord) -> dict[str, Any]:
    return {"id": "", "auto": {"VLANs": record.vlans, "VXLANs": record.vxlans}}


def _docknet(record: DocknetRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "tenantName": record.tenant,
        "networkName": record.network,
        "serviceName": record.group or "",
        "docknetUUID": record.uuid,
    }


def _grant(record: GrantRecord) -> dict[str, Any]:
    return {
        "owner": record.owner,
        "ownerID": record.owner_id,
        "seq": record.seq,
        "grantedAt": record.granted_at,
        **({"reserved": True} if record.reserved else {}),
        **({"host": record.host} if record.host else {}),
        **({"keptFor": record.kept_for} if record.kept_for else {}),
        **({"mac": record.mac} if record.mac else {}),
        **({"away": record.away} if record.away else {}),
    }


def _host(record: HostRecord) -> dict[str, Any]:
    return {
        "label": record.label,
        "controlIP": record.control_ip,
        "vtepIP": record.vtep_ip,
        "vxlanPort": record.vxlan_port,
        "uplinkMACs": record.uplink_macs,
        "version": record.version,
        **({"hostID": record.host_id} if record.host_id else {}),
        **({"schema": record.schema} if record.schema > 1 else {}),
        **({"addresses": record.addresses} if record.addresses else {}),
        **({"nextHops": record.next_hops} if record.next_hops else {}),
        **({"answersProbes": True} if record.answers_probes else {}),
        **({"vtepIP6": record.vtep_ip6} if record.vtep_ip6 else {}),
    }


def _service(record: ServiceInstance) -> dict[str, Any]:
    return {
        "ServiceName": record.service,
        "Role": record.role,
        "Version": record.version,
        "TTL": record.ttl,
        "HostAddr": record.address,
        "Port": record.port,
        "Hostname": record.hostname,
        **({"Schema": record.schema} if record.schema > 1 else {}),
        **({"Addresses": record.addresses} if record.addresses else {}),
        **({"NextHops": record.next_hops} if record.next_hops else {}),
        **({"Store": record.store} if record.store else {}),
    }


def _exclude(fields: RecordFields) -> tuple[str, ...]:
    texts = fields.texts("exclude")
    try:
        for text in texts:
            parse_span(text)
    except ValueError as exc:
        raise Invalid(f"record {fields.key}: exclude: {exc}") from exc
    return texts


def _bounded(fields: RecordFields, first: str, last: str) -> bool:
    """Return whether a network was written as a range; see `NetworkRecord.bounded`."""
    # No field tells. A range that ends with its subnet is distinguished by its bitmap: there the
    # addresses below the range are marked as used.
    subnet, length = fields.text("subnetIP"), fields.number("subnetLen")
    if not subnet:
        return False
    if not 0 <= length <= 32:
        raise Invalid(f"record {fields.key}: subnetLen is {length}, want 0 to 32")
    try:
        if last != creation.last_address(subnet, length):
            return True
        if first == subnet:
            return False
        taken = bitset.decode(fields.text("ipAllocMap"))
        return creation.bounded_by_map(creation.host_number(first, length), taken)
    except ValueError as exc:
        raise Invalid(f"record {fields.key}: addresses: {exc}") from exc


def _subnet_len(fields: RecordFields) -> int:
    """Return the prefix length of a pool's network, derived from the length of its bitmap."""
    try:
        length = bitset.decode_length(fields.text("epgIpAllocMap"))
    except ValueError as exc:
        raise Invalid(f"record {fields.key}: epgIpAllocMap: {exc}") from exc
    return 33 - length.bit_length() if length else 0


Encoder = Callable[[Any], dict[str, Any]]
Decoder = Callable[[str, bytes], Record]

_ENCODERS: Final[dict[type, Encoder]] = {
    NetworkRecord: _network,
    EndpointRecord: _endpoint,
    GroupRecord: _group,
    ServiceRecord: _service_lb,
    BgpRecord: _bgp,
    GlobalRecord: _global,
    TagRangesRecord: _tag_ranges,
    DocknetRecord: _docknet,
    GrantRecord: _grant,
    HostRecord: _host,
    ServiceInstance: _service,
}

DECODERS: Final[dict[str, Decoder]] = {
    keys.ENDPOINTS: decode_endpoint,
    keys.GRANTS: decode_grant,
    keys.NETWORKS: decode_network,
    keys.GROUPS: decode_group,
    keys.SERVICE_LBS: decode_service_lb,
    keys.BGPS: decode_bgp,
    keys.DOCKNETS: decode_docknet,
    keys.HOSTS: decode_host,
    keys.GLOBAL_CONFIG: decode_global,
    keys.TAG_RANGES: decode_tag_ranges,
}
"""Prefix (or whole key) -> decoder, the most numerous first; no other key holds a record."""
_PREFIXES: Final = tuple(item for item in DECODERS.items() if item[0].endswith("/"))


def decoder_of(key: str) -> Decoder | None:
    """Return the decoder for a key; None if the key holds no record."""
    whole = DECODERS.get(key)
    if whole is not None:
        return whole
    for prefix, decoder in _PREFIXES:
        if key.startswith(prefix):
            return decoder
    return None
