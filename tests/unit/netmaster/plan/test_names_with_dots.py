"""Names of networks and tenants have dots, and a network's id joins the two by one.

So network `n.dev` of tenant `red` has the id of network `n` of `dev.red`. What is asked of the one,
by people, pods or agents, must never be answered with the other.
"""

from collections.abc import Callable
from typing import Any

import pytest

from contivmodel.rpc import AllocNetworkRequest, UpdateEndpointRequest
from core.ids import NetworkId, TenantName
from netmaster.plan.endpoints import cleanup, endpoint
from netmaster.plan.external import swarm_network
from netmaster.plan.objects import group, service
from netmaster.plan.show import inspect
from netmaster.stored import EndpointCleanup
from netmaster.view import network_named, own_network_id
from tests.unit.netmaster.scene import NOW, Scene, a_group, a_service, unwanted, wanted

OWN, OTHER = "dev.red", "red"
CALLED = "n.dev"
"""What the other tenant would call the network."""
START = UpdateEndpointRequest(
    event="start", endpoint_id="c1", network=CALLED, tenant=OTHER, container_id="x"
)


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.tenant(OWN)
    made.tenant(OTHER)
    made.network("n", tenant_name=OWN)
    made.endpoint("c1", "n", tenant=OWN)
    assert [*made.view.networks] == [f"{CALLED}.{OTHER}"]
    return made


@pytest.mark.parametrize(
    ("asked", "arguments", "answer"),
    [
        (endpoint.create, (wanted("c2", CALLED, tenant=OTHER), NOW), "key not found"),
        (endpoint.create, (wanted("c1", CALLED, tenant=OTHER), NOW), "key not found"),
        (endpoint.update, (START,), "key not found"),
        (group.create, (a_group("g", CALLED, tenant_name=OTHER),), f"Network {CALLED} not found"),
        (
            service.create,
            (a_service("s", CALLED, tenant_name=OTHER),),
            f"Network {CALLED} not found",
        ),
        (inspect.network, (f"{OTHER}:{CALLED}",), "network not found"),
        (
            swarm_network.allocate,
            (AllocNetworkRequest(docker_id="d", tenant_name=OTHER, network_name=CALLED),),
            f"network {CALLED} of tenant {OTHER} not found",
        ),
    ],
)
def test_another_tenants_network_is_not_there(
    scene: Scene, asked: Callable[..., object], arguments: tuple[Any, ...], answer: str
) -> None:
    assert scene.refused(asked, *arguments) == answer


def test_another_tenants_endpoint_is_not_deleted(scene: Scene) -> None:
    request = unwanted("c1", CALLED).model_copy(update={"tenant_name": OTHER})
    assert scene.refused(endpoint.delete, request)
    assert len(scene.view.endpoints) == 1


def test_no_clean_up_of_a_network_takes_another_tenants_endpoints(scene: Scene) -> None:
    refusal = scene.refused(cleanup.begin, OTHER, "net", CALLED)
    assert refusal == f"no endpoints of network {CALLED} in tenant {OTHER}"
    (write,) = cleanup.begin(scene.view, OWN, "net", "n").writes
    assert isinstance(write.record, EndpointCleanup)
    assert len(cleanup.next_part(scene.view, write.record)) == 1


def test_a_network_is_found_by_both_its_names(scene: Scene) -> None:
    own = network_named(scene.view, "n", OWN)
    assert own is not None
    assert own.id == NetworkId("n.dev.red")
    assert network_named(scene.view, CALLED, OTHER) is None
    assert own_network_id(scene.view, CALLED, OTHER) is None
    assert own_network_id(scene.view, "gone", OTHER) == NetworkId("gone.red")
    assert own.tenant == TenantName(OWN)
