"""What the names of a trace's ends stand for."""

from dataclasses import replace

import pytest

from core.errors import Invalid, NotFound
from core.ids import HostLabel
from netmaster.plan.endpoints import endpoint
from netmaster.plan.show.trace_ends import Scope, resolve
from tests.unit.netmaster.scene import NOW, Scene, wanted

SCOPE = Scope(vteps={HostLabel("h1"): "192.0.2.1", HostLabel("h2"): "192.0.2.2"})


@pytest.fixture(scope="module")
def scene() -> Scene:
    """Two tenants, each with an endpoint `b`, and endpoints of one address; one has a service."""
    scene = Scene()
    scene.network("n1")
    scene.endpoint("a", host="h1")
    scene.endpoint("b", host="h2")
    scene.service_lb("web", ip_address="10.1.1.99")
    scene.do(endpoint.create, wanted("d").model_copy(update={"common_name": "/docked"}), NOW)
    scene.tenant("blue")
    scene.network("n1", tenant_name="blue")
    scene.endpoint("b", tenant="blue", host="h1")
    return scene


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("n1.default-a", "endpoint n1.default-a on host h1"),
        ("10.1.1.2", "endpoint n1.default-b on host h2"),
        ("cn-a", "endpoint n1.default-a on host h1"),
        ("docked", "endpoint n1.default-d on host h1"),
        ("/docked", "endpoint n1.default-d on host h1"),
        ("blue/cn-b", "endpoint n1.blue-b on host h1"),
        ("web", "service web:default"),
        ("default/web", "service web:default"),
        ("10.1.1.99", "service web:default"),
        ("h2", "host h2"),
        ("192.0.2.1", "host h1"),
        ("8.8.8.8", "outside address 8.8.8.8"),
        ("fd00::1", "outside address fd00::1"),
        ("10.1.1.50", "unused address 10.1.1.50 of network n1.default"),
    ],
)
def test_names(scene: Scene, name: str, found: str) -> None:
    assert resolve(scene.view, name, SCOPE).text == found


def test_an_unused_address_is_one_that_a_vxlan_network_would_give() -> None:
    scene = Scene()
    scene.network("sea", "10.2.0.0/24", gateway="10.2.0.254", ipv6_subnet="fd02::/64")
    scene.network("wire", "10.3.0.0/24", encap="vlan", pkt_tag=9)
    kinds = {
        name: resolve(scene.view, name, SCOPE).kind
        for name in ("10.2.0.9", "fd02::9", "10.2.0.254", "10.3.0.9", "10.4.0.9")
    }
    assert kinds == {
        "10.2.0.9": "unused",
        "fd02::9": "unused",
        "10.2.0.254": "outside",  # the switches' own
        "10.3.0.9": "outside",  # a machine on the physical network may have it
        "10.4.0.9": "outside",
    }
    others = replace(SCOPE, tenants=frozenset({"blue"}))
    assert resolve(scene.view, "10.2.0.9", others).kind == "outside", "of no tenant of the client"


@pytest.mark.parametrize("name", ["10.1.1.1", "cn-b"])
def test_what_several_are_called_must_be_told_apart(scene: Scene, name: str) -> None:
    with pytest.raises(Invalid, match=r"n1\.(default|blue)"):
        resolve(scene.view, name, SCOPE)
    assert resolve(scene.view, name, replace(SCOPE, tenant="blue")).key == "n1.blue-b"


@pytest.mark.parametrize("name", ["nobody", "h1", "n1.default-a", "web"])
def test_names_of_others_are_no_names(scene: Scene, name: str) -> None:
    with pytest.raises(NotFound):
        resolve(scene.view, name, replace(SCOPE, tenants=frozenset({"blue"})))


def test_an_end_says_where_it_is(scene: Scene) -> None:
    end = resolve(scene.view, "cn-a", SCOPE)
    assert (end.kind, end.host, end.tenant, end.name) == ("endpoint", "h1", "default", "cn-a")
    assert str(end.address(4)) == "10.1.1.1"
    assert end.address(6) is None
