"""The classes of REST objects, which are all that a netmaster stores and serves as objects.

A class that is added here can be stored (`netmaster.codec`), and needs the decisions about it
(`netmaster.api.v1.objects`), which give it all its routes.
"""

from typing import Final

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
)
from contivmodel.service_objects import Bgp, ServiceLB
from contivmodel.volume_objects import Volume, VolumeProfile

KINDS: Final[dict[str, type[RestObject]]] = {
    model.kind: model
    for model in (
        Tenant,
        Network,
        EndpointGroup,
        Policy,
        Rule,
        Netprofile,
        ExtContractsGroup,
        AppProfile,
        AciGw,
        ServiceLB,
        Bgp,
        Volume,
        VolumeProfile,
        Global,
    )
}
"""By the name of the class; in the order in which documents list them."""
