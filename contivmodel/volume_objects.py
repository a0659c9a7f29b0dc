"""Volumes and their profiles: kinds that can be read but not created.

The original has their routes without an implementation (docs/original/netmaster-rest.md §2).
"""

from typing import ClassVar

from contivmodel.objects import Link, LinkSet, RestObject
from contivmodel.wire import WireModel, field


class VolumeLinks(WireModel):
    """The tenant of a volume."""

    tenant: Link = field("Tenant", default_factory=Link)


class VolumeLinkSets(WireModel):
    """The users of a volume."""

    service_instances: LinkSet = field("ServiceInstances", default_factory=dict)


class Volume(RestObject):
    """Storage of a tenant."""

    kind: ClassVar[str] = "volume"
    plural: ClassVar[str] = "volumes"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "volume_name")

    datastore_type: str = field("datastoreType")
    mount_point: str = field("mountPoint")
    pool_name: str = field("poolName")
    size: str = field("size")
    tenant_name: str = field("tenantName")
    volume_name: str = field("volumeName")
    link_sets: VolumeLinkSets = field("link-sets", default_factory=VolumeLinkSets)
    links: VolumeLinks = field("links", default_factory=VolumeLinks)


class VolumeProfileLinkSets(WireModel):
    """The users of a volume profile."""

    services: LinkSet = field("Services", default_factory=dict)


class VolumeProfile(RestObject):
    """Defaults for new volumes of a tenant."""

    kind: ClassVar[str] = "volumeProfile"
    plural: ClassVar[str] = "volumeProfiles"
    key_fields: ClassVar[tuple[str, ...]] = ("tenant_name", "volume_profile_name")

    datastore_type: str = field("datastoreType")
    mount_point: str = field("mountPoint")
    pool_name: str = field("poolName")
    size: str = field("size")
    tenant_name: str = field("tenantName")
    volume_profile_name: str = field("volumeProfileName")
    link_sets: VolumeProfileLinkSets = field("link-sets", default_factory=VolumeProfileLinkSets)
    links: VolumeLinks = field("links", default_factory=VolumeLinks)
