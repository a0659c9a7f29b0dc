"""Operations on Docker's networks, and what a swarm protects from deletion."""

from collections.abc import Callable

import pytest

from contivmodel.objects import EndpointGroup, Global, Network
from core import keys
from core.ids import GroupName, NetworkName, TenantName
from netmaster.plan import docker_network
from netmaster.plan.docker_network import DockerNetworkOperation
from netmaster.plan.external import pending_effects
from netmaster.plan.model import Plan
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import group, network
from netmaster.stored import PendingDockerNetwork, Write
from netmaster.view import View
from state.records import DocknetRecord
from tests.unit.netmaster.scene import Scene, a_group, a_network

N1 = PendingDockerNetwork(TenantName("default"), NetworkName("n1"), None)
G1 = PendingDockerNetwork(TenantName("default"), NetworkName("n1"), GroupName("g1"))


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.tenant("blue")
    return scene


def turn_aci(scene: Scene) -> None:
    stored = scene.read("global", "global")
    assert isinstance(stored, Global)
    scene.do(settings.update, stored.model_copy(update={"network_infra_type": "aci"}))


def operations(scene: Scene, plan: Plan) -> tuple[DockerNetworkOperation, ...]:
    return docker_network.operations(scene.view, plan.writes)


def told_of_network(scene: Scene, asked: Network) -> DockerNetworkOperation:
    (found,) = operations(scene, network.create(scene.view, asked))
    return found


def told_of_group(scene: Scene, asked: EndpointGroup) -> DockerNetworkOperation:
    (found,) = operations(scene, group.create(scene.view, asked))
    return found


def record(scene: Scene, place: PendingDockerNetwork, uuid: str = "id1") -> None:
    """Have docker hold a network for something."""
    operation = DockerNetworkOperation(place, {})
    scene.do(lambda view: Plan(docker_network.record_writes(view, operation, uuid), reply=None))


def test_a_network_is_made_in_docker(scene: Scene) -> None:
    found = told_of_network(
        scene,
        a_network("n1", "10.1.1.1-10.1.1.9/24", gateway="10.1.1.254", encap="vlan", pkt_tag=7),
    )
    assert (found.effect, found.name) == (N1, "n1")
    assert found.wanted == {
        "CheckDuplicate": True,
        "Attachable": True,
        "EnableIPv6": False,
        "Options": {"tenant": "default", "encap": "vlan", "pkt-tag": "7"},
        "IPAM": {
            "Config": [{"Subnet": "10.1.1.0/24", "Gateway": "10.1.1.254"}],
            "Options": {"tenant": "default", "network": "n1"},
        },
    }


def test_a_network_of_both_families_is_made_in_docker(scene: Scene) -> None:
    found = told_of_network(
        scene,
        a_network(
            "n1",
            tenant_name="blue",
            pkt_tag=1000,
            ipv6_subnet="2016:0430::/100",
            ipv6_gateway="2016:0430::254",
        ),
    )
    assert found.name == "n1/blue"
    assert found.wanted is not None
    assert found.wanted["EnableIPv6"] is True
    assert "EnableIPv4" not in found.wanted
    assert found.wanted["Options"] == {"tenant": "blue", "encap": "vxlan", "pkt-tag": "1000"}
    assert found.wanted["IPAM"]["Config"] == [
        {"Subnet": "10.1.1.0/24"},
        {"Subnet": "2016:0430::/100", "Gateway": "2016:0430::254"},
    ]


def test_a_network_of_ipv6_alone_is_made_in_docker_without_ipv4(scene: Scene) -> None:
    found = told_of_network(
        scene,
        a_network("n1", "", ipv6_subnet="2016:0430::/100", ipv6_gateway="2016:0430::254"),
    )
    assert found.wanted is not None
    assert (found.wanted["EnableIPv4"], found.wanted["EnableIPv6"]) == (False, True)
    assert found.wanted["IPAM"]["Config"] == [
        {"Subnet": "2016:0430::/100", "Gateway": "2016:0430::254"}
    ]


def test_a_group_is_made_in_docker(scene: Scene) -> None:
    scene.network("n1", tenant_name="blue")
    found = told_of_group(scene, a_group("g1", tenant_name="blue"))
    assert found.effect == PendingDockerNetwork(
        TenantName("blue"), NetworkName("n1"), GroupName("g1")
    )
    assert found.name == "g1/blue"
    assert found.wanted is not None
    assert found.wanted["IPAM"] == {
        "Config": [{"Subnet": "10.1.1.0/24"}],
        "Options": {"tenant": "blue", "network": "n1", "group": "g1"},
    }


def test_docker_hears_of_nothing_else(scene: Scene) -> None:
    infra = network.create(scene.view, a_network("n2", nw_type="infra"))
    assert operations(scene, infra) == ()
    scene.network("n1")
    scene.group("g1")
    assert operations(scene, group.update(scene.view, a_group("g1", net_profile=""))) == ()
    turned = Scene()
    turn_aci(turned)
    fabric = network.create(turned.view, a_network("n1", encap="vlan"))
    assert operations(turned, fabric) == ()
    turned.do(lambda _: fabric)
    assert told_of_group(turned, a_group("g1")).effect == G1


def test_what_is_deleted_goes_from_docker(scene: Scene) -> None:
    scene.network("n1")
    scene.group("g1")
    assert operations(scene, group.delete(scene.view, "default:g1")) == (
        DockerNetworkOperation(G1, None),
    )
    scene.do(group.delete, "default:g1")
    assert operations(scene, network.delete(scene.view, "default:n1")) == (
        DockerNetworkOperation(N1, None),
    )


def test_an_infra_network_is_none_of_dockers_unless_it_has_a_record(scene: Scene) -> None:
    scene.network("n1", nw_type="infra")
    plan = network.delete(scene.view, "default:n1")
    assert operations(scene, plan) == ()
    record(scene, N1)
    assert operations(scene, plan) == (DockerNetworkOperation(N1, None),)


@pytest.mark.parametrize("known", ["record", "pending"])
def test_two_networks_cannot_share_a_record(scene: Scene, known: str) -> None:
    scene.tenant("a")
    scene.tenant("a.b")
    first = told_of_network(scene, a_network("c", tenant_name="a.b"))
    if known == "record":
        record(scene, first.effect)
    else:
        scene.do(lambda view: Plan(pending_effects.recorded(view, [first]), reply=None))
    plan = network.create(scene.view, a_network("b.c", "10.2.0.0/24", tenant_name="a"))
    text = "docker network id a.b.c. is in use by another network"
    assert scene.refused(docker_network.operations, plan.writes) == text


def test_what_docker_answered_is_recorded(scene: Scene) -> None:
    record(scene, G1, "id1")
    key = "default.n1.g1"
    assert scene.view.docknets == {
        key: DocknetRecord(tenant=G1.tenant, network=G1.network, group=G1.group, uuid="id1")
    }
    assert docker_network.record_writes(scene.view, DockerNetworkOperation(G1, {}), "id1") == ()
    record(scene, G1, "id2")
    assert [found.uuid for found in scene.view.docknets.values()] == ["id2"]
    scene.do(
        lambda view: Plan(
            docker_network.record_writes(view, DockerNetworkOperation(G1, None), ""), reply=None
        )
    )
    assert scene.view.docknets == {}
    assert docker_network.record_writes(scene.view, DockerNetworkOperation(G1, None), "") == ()


def test_what_is_not_certain(scene: Scene) -> None:
    asked = told_of_network(scene, a_network("n9", "10.9.0.0/24"))
    gone = PendingDockerNetwork(TenantName("blue"), NetworkName("gone"), None)
    scene.network("n1")
    scene.network("n2", "10.2.0.0/24")
    scene.network("host", "10.3.0.0/24", nw_type="infra")
    scene.group("g1")
    for place in (docker_network.identity_of(a_network("n2")), gone):
        record(scene, place)
    scene.do(lambda view: Plan(pending_effects.recorded(view, [asked]), reply=None))
    scene.reload()
    assert docker_network.pending(scene.view) == [gone, N1, G1, asked.effect]


def test_what_docker_should_hold(scene: Scene) -> None:
    assert docker_network.sync_operation(scene.view, N1) == DockerNetworkOperation(N1, None)
    made = told_of_network(scene, a_network("n1"))
    scene.network("n1")
    assert docker_network.sync_operation(scene.view, N1) == made
    made = told_of_group(scene, a_group("g1"))
    scene.group("g1")
    assert docker_network.sync_operation(scene.view, G1) == made
    elsewhere = PendingDockerNetwork(G1.tenant, NetworkName("n2"), G1.group)
    assert docker_network.sync_operation(scene.view, elsewhere) == DockerNetworkOperation(
        elsewhere, None
    )


def test_in_a_swarm_what_is_mapped_stays(scene: Scene) -> None:
    scene.network("n1")
    scene.group("g1")
    record(scene, G1, "f00")
    text = "cannot delete group g1 mapped to docker network f00"
    scene.endpoint("c1", service_name="g1")
    assert scene.refused(_in_swarm(group.delete), "default:g1") == text
    scene.delete_endpoint("c1")
    assert scene.refused(_in_swarm(group.delete), "default:g1") == text
    scene.do(
        lambda view: Plan(
            docker_network.record_writes(view, DockerNetworkOperation(G1, None), ""), reply=None
        )
    )
    record(scene, N1, "ba5")
    busy = "cannot delete n1 has 1 endpoint groups"
    assert scene.refused(_in_swarm(network.delete), "default:n1") == busy
    scene.do(_in_swarm(group.delete), "default:g1")
    text = "cannot delete network n1 mapped to docker network ba5"
    assert scene.refused(_in_swarm(network.delete), "default:n1") == text
    scene.endpoint("c1")
    assert scene.refused(_in_swarm(network.delete), "default:n1") == text


def test_a_swarm_deletion_fails_if_it_was_mapped_meanwhile(scene: Scene) -> None:
    scene.network("n1")
    guard = Write(keys.docknet(N1.id), None, new=True)
    assert guard in network.delete(scene.view, "default:n1", in_swarm=True).writes
    assert guard not in network.delete(scene.view, "default:n1").writes
    scene.do(_in_swarm(network.delete), "default:n1")


def _in_swarm(delete: Callable[..., Plan]) -> Callable[[View, str], Plan]:
    return lambda view, key: delete(view, key, in_swarm=True)
