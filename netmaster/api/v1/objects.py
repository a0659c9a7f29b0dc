"""CRUD of the REST model: bodies to plans, stored objects to answers. Pure.

One table here says which plan module decides about which class of objects.

Source: docs/original/netmaster-rest.md §1.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from contivmodel.kinds import KINDS
from contivmodel.objects import (
    AciGw,
    AppProfile,
    EndpointGroup,
    ExtContractsGroup,
    Global,
    Netprofile,
    Network,
    Policy,
    RestObject,
    Rule,
    Tenant,
    posted,
)
from contivmodel.service_objects import Bgp, ServiceLB
from contivmodel.volume_objects import Volume, VolumeProfile
from contivmodel.wire import decode
from core.errors import NotFound
from netmaster.plan.model import Plan
from netmaster.plan.objects import (
    aci_gateway,
    app_profile,
    bgp,
    contracts,
    group,
    netprofile,
    network,
    policy,
    rule,
    service,
    tenant,
    volume,
)
from netmaster.plan.objects import globals as settings
from netmaster.plan.show import inspect
from netmaster.view import View

SWARM: Final = "swarm-mode"
"""The mode of the cluster in which Docker's networks are created first."""

Inspect = Callable[[View, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectClass:
    """The decisions about one class of objects; some have no operational state to inspect."""

    model: type[RestObject]
    create: Callable[[View, Any], Plan]
    update: Callable[[View, Any], Plan]
    delete: Callable[[View, str], Plan]
    replace: Callable[[View, Any], Plan] | None = None
    """What API v2 does in the place of `update`, where empty fields are what is asked for."""
    delete_in_swarm: Callable[[View, str], Plan] | None = None
    """Replaces `delete` in swarm mode."""
    inspect: Inspect | None = None

    def deletion(self, mode: str) -> Callable[[View, str], Plan]:
        """Return the decision of a deletion in a mode of the cluster."""
        return self.delete_in_swarm or self.delete if mode == SWARM else self.delete


_DECISIONS: Final = (
    ObjectClass(
        model=Tenant,
        create=tenant.create,
        update=tenant.update,
        replace=tenant.replace,
        delete=tenant.delete,
        inspect=inspect.tenant,
    ),
    ObjectClass(
        model=Network,
        create=network.create,
        update=network.update,
        replace=network.change,
        delete=network.delete,
        delete_in_swarm=partial(network.delete, in_swarm=True),
        inspect=inspect.network,
    ),
    ObjectClass(
        model=EndpointGroup,
        create=group.create,
        update=group.update,
        replace=group.change,
        delete=group.delete,
        delete_in_swarm=partial(group.delete, in_swarm=True),
        inspect=inspect.group,
    ),
    ObjectClass(
        model=Policy,
        create=policy.create,
        update=policy.update,
        replace=policy.replace,
        delete=policy.delete,
        inspect=inspect.policy,
    ),
    ObjectClass(
        model=Rule,
        create=rule.create,
        update=rule.update,
        delete=rule.delete,
    ),
    ObjectClass(
        model=Netprofile,
        create=netprofile.create,
        update=netprofile.update,
        delete=netprofile.delete,
    ),
    ObjectClass(
        model=ExtContractsGroup,
        create=contracts.create,
        update=contracts.update,
        delete=contracts.delete,
    ),
    ObjectClass(
        model=AppProfile,
        create=app_profile.create,
        update=app_profile.update,
        delete=app_profile.delete,
    ),
    ObjectClass(
        model=AciGw,
        create=aci_gateway.create,
        update=aci_gateway.update,
        delete=aci_gateway.delete,
        inspect=inspect.aci_gateway,
    ),
    ObjectClass(
        model=ServiceLB,
        create=service.create,
        update=service.update,
        delete=service.delete,
        inspect=inspect.service,
    ),
    ObjectClass(
        model=Bgp,
        create=bgp.create,
        update=bgp.update,
        delete=bgp.delete,
    ),
    ObjectClass(
        model=Volume,
        create=volume.create,
        update=volume.create,
        delete=volume.delete_volume,
    ),
    ObjectClass(
        model=VolumeProfile,
        create=volume.create,
        update=volume.create,
        delete=volume.delete_profile,
    ),
    ObjectClass(
        model=Global,
        create=settings.create,
        update=settings.update,
        delete=settings.delete,
        inspect=inspect.global_,
    ),
)
_BY_MODEL: Final = {one.model: one for one in _DECISIONS}
OBJECT_CLASSES: Final[Mapping[str, ObjectClass]] = {
    model.plural: _BY_MODEL[model] for model in KINDS.values()
}
"""The decisions about all classes, by the word of a class in paths."""

ENDPOINTS: Final = "endpoints"
"""Endpoints are no REST objects; they can only be inspected."""


def listed(view: View, kind: ObjectClass) -> bytes:
    """Return all objects of a kind, as a line of JSON."""
    return view.listed(kind.model.kind)


def stored(view: View, kind: ObjectClass, key: str) -> RestObject:
    """Return one object; NotFound in the original's words."""
    found = view.read(kind.model.kind, key)
    if found is None:
        raise NotFound(f"{kind.model.kind} not found")
    return found


def inspected(view: View, kind: ObjectClass, key: str, mode: str) -> dict[str, Any]:
    """Return an object and its operational state; the global one's has the daemon's mode."""
    config = stored(view, kind, key)
    if kind.inspect is None:
        return {"Config": config}
    oper = kind.inspect(view, key)
    if isinstance(config, Global):
        oper = {"clusterMode": mode, **oper}
    return {"Config": config, "Oper": oper}


def inspected_endpoint(view: View, name: str, tenants: Collection[str] | None) -> dict[str, Any]:
    """Return the operational state of an endpoint, which has no REST object.

    It is looked for among those of `tenants`, None for all.
    """
    return {"Oper": inspect.endpoint(view, name, tenants)}


def write(kind: ObjectClass, key: str, body: bytes) -> Callable[[View], Plan]:
    """Return the decision to create an object, or to update it where it exists.

    Raises Invalid for a body that cannot be such an object.
    """
    obj = posted(decode(kind.model, body), key)

    def decide(view: View) -> Plan:
        exists = view.read(kind.model.kind, key) is not None
        return (kind.update if exists else kind.create)(view, obj)

    return decide
