"""What networks of docker's swarm stand for, and the addresses that its managers hold."""

from functools import partial
from typing import Any

import pytest

from contivmodel.rpc import (
    AllocAddressRequest,
    AllocNetworkRequest,
    DeleteEndpointRequest,
    FreeNetworkRequest,
    ReleaseAddressRequest,
)
from core import keys
from core.ids import NetworkId
from netmaster.plan.endpoints import address, endpoint
from netmaster.plan.external import swarm_network
from netmaster.plan.objects import network
from state.docker_networks import DockerPlace
from state.records import GrantOwner
from tests.unit.netmaster.scene import NOW, Scene, wanted

ID = "v22ewtnc3pk3vcphysvorugnb"
POOL = "10.79.0.0/24"
in_swarm = partial(endpoint.create, in_swarm=True)


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network("n1", gateway="10.1.1.254")
    scene.group("g1")
    return scene


def allocate(scene: Scene, docker_id: str = ID, **more: str) -> Any:
    return scene.do(swarm_network.allocate, AllocNetworkRequest(docker_id=docker_id, **more))


def refused(scene: Scene, docker_id: str = ID, **more: str) -> str:
    request = AllocNetworkRequest(docker_id=docker_id, **more)
    return scene.refused(swarm_network.allocate, request)


def free(scene: Scene, docker_id: str = ID) -> Any:
    return scene.do(swarm_network.free, FreeNetworkRequest(docker_id=docker_id))


def test_a_network_of_ipv6_alone_has_no_other_subnet(scene: Scene) -> None:
    scene.network("six", "", ipv6_subnet="fd00:9::/64")
    said = refused(scene, network_name="six", subnet="10.1.0.0/16")
    assert said == "network six.default has no IPv4 subnet, and cannot have 10.1.0.0/16"


def test_a_network_is_created_and_deleted_with_its_reservations(scene: Scene) -> None:
    before = dict(scene.store)
    subnets = {"subnet": POOL, "gateway": "10.79.0.254"}
    place = allocate(scene, **subnets, ipv6_subnet="fd00:79::/64", encap="vlan")
    assert place == DockerPlace("default", ID)  # type: ignore[arg-type] # names are texts
    record = scene.view.networks[NetworkId(f"{ID}.default")]
    assert (record.subnet, record.gateway, record.encap) == ("10.79.0.0", "10.79.0.254", "vlan")
    assert record.ipv6_subnet == "fd00:79::"
    # a manager that begins to lead asks again, by options that name the network
    assert allocate(scene, **subnets) == place
    assert allocate(scene, tenant_name="default", network_name=ID) == place
    user = partial(network.delete, in_swarm=True)
    assert "mapped to docker network" in scene.refused(user, f"default:{ID}")
    reserve(scene)
    assert free(scene) == "success"
    assert scene.store == before
    assert free(scene) == "success"


def test_a_network_or_group_that_exists_is_mapped(scene: Scene) -> None:
    place = allocate(scene, network_name="n1", service_name="g1", subnet="10.1.1.0/24")
    assert place.name == "g1"
    assert keys.docknet(next(iter(scene.view.docknets))).endswith("default.n1.g1")
    # docker has forgotten the first, and another one is to stand for the group
    allocate(scene, "another", network_name="n1", service_name="g1")
    assert [record.uuid for record in scene.view.docknets.values()] == ["another"]
    free(scene, "another")
    assert not scene.view.docknets
    assert "n1.default" in scene.view.networks


def test_what_is_no_network_is_refused_and_changes_nothing(scene: Scene) -> None:
    overlap = refused(scene, subnet="10.1.0.0/16")
    assert overlap.endswith("by -o network=... and --ipam-opt network=... to use it")
    assert refused(scene, network_name="nn") == "network nn of tenant default not found"
    assert "group gg of network n1.default" in refused(scene, network_name="n1", service_name="gg")
    assert "has subnet 10.1.1.0/24" in refused(scene, network_name="n1", subnet=POOL)
    assert refused(scene, network_name="n1", subnet="x") == "x is not a subnet"
    assert "needs an IPv4 subnet" in refused(scene)
    assert "has no id" in refused(scene, "", subnet=POOL)
    assert refused(scene, subnet="10.79.0.0/99")
    assert refused(scene, subnet=POOL, encap="gre")
    assert not scene.view.docknets


def test_a_network_with_endpoints_is_freed_later(scene: Scene) -> None:
    allocate(scene, subnet=POOL)
    scene.endpoint("c1", ID)
    request = FreeNetworkRequest(docker_id=ID)
    assert "has active endpoints" in scene.refused(swarm_network.free, request)
    scene.do(endpoint.delete, gone())
    free(scene)
    assert not scene.view.docknets


def test_only_what_was_created_for_docker_is_deleted(scene: Scene) -> None:
    free(scene, "n1")
    assert "n1.default" in scene.view.networks


def reserve(scene: Scene, preferred: str = "") -> str:
    request = AllocAddressRequest(address_pool=POOL, preferred=preferred)
    return str(scene.do(address.allocate_in_swarm, request, NOW)).partition("/")[0]


def release(scene: Scene, text: str) -> None:
    scene.do(address.release, ReleaseAddressRequest(address_pool=POOL, ipv4_address=text))


def gone(container: str = "c1") -> DeleteEndpointRequest:
    return DeleteEndpointRequest(tenant_name="default", network_name=ID, endpoint_id=container)


def holder(scene: Scene, text: str) -> GrantOwner | None:
    found = scene.view.addresses[NetworkId(f"{ID}.default")].grants.get(text)
    return found.owner if found else None


def test_an_address_is_reserved_from_its_allocation_to_its_release(scene: Scene) -> None:
    """A manager's release may come after the host has deleted the endpoint, or before."""
    allocate(scene, subnet=POOL)
    first = reserve(scene)
    scene.do(in_swarm, wanted("c1", ID, ip_address=first), NOW)
    assert holder(scene, first) is GrantOwner.ENDPOINT
    assert reserve(scene, first) == first, "a manager that begins to lead asks again"
    scene.do(endpoint.delete, gone())
    assert holder(scene, first) is GrantOwner.RESERVATION
    assert reserve(scene) != first
    release(scene, first)
    assert holder(scene, first) is None
    scene.do(in_swarm, wanted("c1", ID, ip_address=reserve(scene, first)), NOW)
    release(scene, first)
    assert holder(scene, first) is GrantOwner.ENDPOINT
    release(scene, first)
    scene.do(endpoint.delete, gone())
    assert holder(scene, first) is None


def test_an_endpoint_without_reservation_keeps_none(scene: Scene) -> None:
    allocate(scene, subnet=POOL)
    record = scene.do(in_swarm, wanted("c1", ID), NOW)
    request = AllocAddressRequest(address_pool=POOL, preferred=record.ip_address)
    assert "is not available" in scene.refused(address.allocate_in_swarm, request, NOW)
    scene.do(endpoint.delete, gone())
    assert holder(scene, record.ip_address) is None


def test_a_pool_is_that_of_dockers_network_in_whatever_tenant(scene: Scene) -> None:
    scene.tenant("zebra")
    scene.network("other", POOL, tenant_name="zebra")
    allocate(scene, subnet=POOL)
    given = reserve(scene)
    assert holder(scene, given) is GrantOwner.RESERVATION
    release(scene, given)
    assert holder(scene, given) is None


def test_a_pool_of_no_network_has_nothing_to_release(scene: Scene) -> None:
    request = ReleaseAddressRequest(address_pool="10.9.0.0/24", ipv4_address="10.9.0.1")
    assert scene.refused(address.release, request) == "network not found"
