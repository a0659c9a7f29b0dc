"""Records of the original's hosts, made from what its agents registered.

Agents here make tunnels to the hosts that have a record. The original's hosts have registrations
instead, which end with their agents. So they are kept as records, and a host that is taken over has
its tunnels to the others. Source: docs/original/netplugin-agent.md §4.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from core import keys
from core.ids import HostLabel
from netmaster.plan.address_space import ROUTING
from netmaster.takeover.draft import Draft
from netmaster.takeover.source import TakeoverSource
from state import codec
from state.records import Encap, HostRecord, ServiceInstance


def translate(source: TakeoverSource, draft: Draft, macs: Mapping[str, str]) -> None:
    """Add the records of hosts to a draft; `macs` are those of their uplinks, as far as given."""
    control = {one.hostname: one for _, one in _of(source, draft, keys.SERVICE_NETPLUGIN)}
    for key, vtep in _of(source, draft, keys.SERVICE_VTEP):
        label = HostLabel(vtep.hostname)
        known = draft.hosts.get(label)
        if known is not None:
            text = f"two hosts have the label {label}: {known.vtep_ip} and {vtep.address}"
            draft.refuse(key, text, "end the agent of the wrong one")
            continue
        registered = control.get(vtep.hostname, vtep)
        draft.hosts[label] = HostRecord(
            label=label,
            control_ip=registered.address,
            vtep_ip=vtep.address,
            vxlan_port=vtep.port,
            uplink_macs=(macs[label],) if label in macs else (),
        )
        if label not in macs and _routes_vlans(draft):
            text = (
                f"routed vlan networks need the MAC address of the uplink of host {label}, which "
                "the original does not store: until the host is taken over itself, others do not "
                f"reach its pods there; give --uplink-mac {label}=MAC"
            )
            draft.note(key, text)
    homes = {one.homing_host: key for key, one in sorted(draft.endpoints.items(), reverse=True)}
    for label in sorted(homes.keys() - draft.hosts.keys()):
        text = (
            f"its host {label!r} has no agent that registered a tunnel address: no other host has "
            "a tunnel to it before it is taken over itself"
        )
        draft.note(keys.endpoint(homes[label]), text)


def _routes_vlans(draft: Draft) -> bool:
    routed = draft.settings is not None and draft.settings.fwd_mode == ROUTING
    return routed and any(one.encap is Encap.VLAN for one in draft.networks.values())


def _of(
    source: TakeoverSource, draft: Draft, service: str
) -> Iterator[tuple[str, ServiceInstance]]:
    for key, value in source.registered.items():
        if key.startswith(keys.services(service)):
            instance = draft.decoded(key, partial(codec.decode_service, key, value))
            if instance is not None:
                yield key, instance
