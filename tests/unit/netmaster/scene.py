"""A leader in small: decisions are applied to a view and to a tiny store, and compared.

Each write must say truly whether its key is new, and after every change the view read again from
the store must show the same as the one that was kept in sync.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pytest

from contivmodel.objects import EndpointGroup, Network, Policy, Rule, Tenant
from contivmodel.rpc import (
    AllocAddressRequest,
    ConfigEP,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    ReleaseAddressRequest,
    UpdateEndpointRequest,
)
from contivmodel.service_objects import ServiceLB
from core.errors import ContivError
from netmaster import codec
from netmaster.plan.endpoints import address, endpoint
from netmaster.plan.model import Plan
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import group, network, policy, rule, service, tenant
from netmaster.plan.show import inspect
from netmaster.view import View
from state.records import EndpointRecord

NOW = 1000.0


class Scene:
    """A view, what the store holds, and one method for each thing a user can ask for."""

    def __init__(self) -> None:
        self.view = View()
        self.store: dict[str, bytes] = {}
        self.do(tenant.startup)
        self.do(settings.startup, settings.StartupFlags(fwd_mode="routing", infra_type="default"))

    def do(self, decide: Callable[..., Plan], *asked: Any, **named: Any) -> Any:
        """Decide, apply, and check that the store agrees; return the reply."""
        plan = decide(self.view, *asked, **named)
        for write in plan.writes:
            assert write.new == (write.key not in self.store), write.key
        keys = [write.key for write in plan.writes]
        assert len(keys) == len(set(keys))
        for write in plan.writes:
            if write.record is None:
                self.store.pop(write.key, None)
            else:
                self.store[write.key] = codec.encode(write.record)
        self.view.apply(plan.writes)
        assert shown(View.load(self.store)) == shown(self.view)
        return plan.reply

    def refused(self, decide: Callable[..., object], *asked: Any) -> str:
        """Return the text with which a decision is refused."""
        with pytest.raises(ContivError) as caught:
            decide(self.view, *asked)
        return str(caught.value)

    def reload(self) -> None:
        """Read the view again, as a new leader does."""
        self.view = View.load(self.store)

    def read(self, kind: str, key: str) -> Any:
        """Return an object as a user gets it, None if there is none."""
        return self.view.read(kind, key)

    def tenant(self, name: str) -> Any:
        return self.do(tenant.create, Tenant(tenant_name=name))

    def network(self, name: str, subnet: str = "10.1.1.0/24", **more: Any) -> Any:
        return self.do(network.create, a_network(name, subnet, **more))

    def group(self, name: str, network_name: str = "n1", **more: Any) -> Any:
        return self.do(group.create, a_group(name, network_name, **more))

    def policy(self, name: str, **more: Any) -> Any:
        return self.do(policy.create, a_policy(name, **more))

    def rule(self, rule_id: str, **more: Any) -> Any:
        return self.do(rule.create, a_rule(rule_id, **more))

    def endpoint(self, container: str, network_name: str = "n1", **config: Any) -> EndpointRecord:
        record = self.do(endpoint.create, wanted(container, network_name, **config), NOW)
        assert isinstance(record, EndpointRecord)
        return record

    def service_lb(self, name: str, network_name: str = "n1", **more: Any) -> Any:
        return self.do(service.create, a_service(name, network_name, **more))

    def start(self, container: str, labels: dict[str, str], **more: Any) -> Any:
        """Have an endpoint's container start, with labels."""
        asked = {"network": "n1", "tenant": "default", "container_id": f"id-{container}"} | more
        request = UpdateEndpointRequest(
            event="start", endpoint_id=container, labels=labels, **asked
        )
        return self.do(endpoint.update, request)

    def die(self, container: str) -> Any:
        request = UpdateEndpointRequest(event="die", container_id=f"id-{container}")
        return self.do(endpoint.update, request)

    def delete_endpoint(self, container: str, network_name: str = "n1") -> EndpointRecord:
        record = self.do(endpoint.delete, unwanted(container, network_name))
        assert isinstance(record, EndpointRecord)
        return record

    def allocate(self, nid: str = "n1.default", *, now: float = NOW, **more: Any) -> str:
        return str(self.do(address.allocate, AllocAddressRequest(network_id=nid, **more), now))

    def release(self, ip: str, nid: str = "n1.default") -> str:
        request = ReleaseAddressRequest(network_id=nid, ipv4_address=ip)
        return str(self.do(address.release, request))

    def lists(self, key: str = "default:n1") -> tuple[str, str, int]:
        """Return what a network shows as allocated and available, and the count."""
        oper = inspect.network(self.view, key)
        return (
            oper["allocatedIPAddresses"],
            oper["availableIPAddresses"],
            oper["allocatedAddressesCount"],
        )


def a_network(name: str, subnet: str = "10.1.1.0/24", **more: Any) -> Network:
    asked = {"encap": "vxlan", "nw_type": "data", "tenant_name": "default"} | more
    return Network(network_name=name, subnet=subnet, **asked)


def a_group(name: str, network_name: str = "n1", **more: Any) -> EndpointGroup:
    asked = {"tenant_name": "default"} | more
    return EndpointGroup(group_name=name, network_name=network_name, **asked)


def a_service(name: str, network_name: str = "n1", **more: Any) -> ServiceLB:
    """Return a service on port 80 for what is labelled `app=web`."""
    asked = {"tenant_name": "default", "ports": ["80:8080:TCP"], "selectors": ["app=web"]} | more
    return ServiceLB(service_name=name, network_name=network_name, **asked)


def a_policy(name: str, **more: Any) -> Policy:
    asked = {"tenant_name": "default"} | more
    return Policy(policy_name=name, **asked)


def a_rule(rule_id: str, **more: Any) -> Rule:
    """Return a rule that lets everything into the groups of the policy `p1`."""
    asked: dict[str, Any] = {"tenant_name": "default", "policy_name": "p1", "direction": "in"}
    return Rule(rule_id=rule_id, **(asked | {"action": "allow", "priority": 1} | more))


def wanted(container: str, network_name: str = "n1", **config: Any) -> CreateEndpointRequest:
    tenant_name = config.pop("tenant", "default")
    return CreateEndpointRequest(
        tenant_name=tenant_name,
        network_name=network_name,
        common_name=f"cn-{container}",
        config=ConfigEP(container=container, **{"host": "h1"} | config),
    )


def unwanted(container: str, network_name: str = "n1") -> DeleteEndpointRequest:
    return DeleteEndpointRequest(
        tenant_name="default", network_name=network_name, endpoint_id=container
    )


def shown(view: View) -> dict[str, Any]:
    """Return everything a view can be asked for, but what is forgotten between two leaders."""
    return {
        "objects": {
            kind: {key: view.read(kind, key) for key in view.objects[kind]} for kind in view.objects
        },
        # kept from step to step on one side, made just now on the other
        "answers": {
            kind: sorted(json.loads(view.listed(kind)), key=itemgetter("key"))
            for kind in view.objects
        },
        # what a range means is seen from the next address; its flag may read back otherwise
        "networks": {nid: replace(record, bounded=False) for nid, record in view.networks.items()},
        "endpoints": view.endpoints,
        "groups": view.groups,
        "services": (view.services, view.bgps, view.cleanups),
        "outside": (view.pending_effects, view.docknets),
        "hosts": (view.absences, view.drains, view.block_leases, view.blocks),
        "settings": (view.global_record, view.tag_ranges, view.group_id_cursor, view.schema),
        "unread": view.unread,
        "condemned": view.orphaned_rules,
        "reservations": view.reservations,
        "grants": {nid: addresses.grants for nid, addresses in view.addresses.items()},
        "next": {
            nid: addresses.v4 and [addresses.v4.lowest(), *map(addresses.v4.lowest, view.groups)]
            for nid, addresses in view.addresses.items()
        },
        "kept": view.answers,
        "indexes": (
            {nid: set(members) for nid, members in view.network_endpoints.items()},
            {key: set(members) for key, members in view.group_endpoints.items()},
            {label: set(members) for label, members in view.host_endpoints.items()},
            {name: set(members) for name, members in view.same_container_id.items()},
            {label: set(members) for label, members in view.labelled.items()},
            view.network_tags,
            view.group_tags,
        ),
        "tags": (view.segments.vlans, view.segments.vxlans, view.segments.vxlans_start),
        "group id": view.group_ids.following(),
    }
