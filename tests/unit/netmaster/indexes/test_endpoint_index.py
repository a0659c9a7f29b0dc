"""Endpoints are found by what people ask for, also where there is no index."""

from netmaster.indexes.endpoint_index import with_id
from tests.unit.netmaster.scene import Scene


def test_a_container_is_found_in_each_of_its_networks() -> None:
    scene = Scene()
    for network, subnet in (("n1", "10.1.1.0/24"), ("n2", "10.1.2.0/24")):
        scene.network(network, subnet)
        for container in ("c1", "c2"):
            scene.endpoint(container, network)
    endpoints = scene.view.endpoints
    assert sorted(with_id(endpoints, "c1")) == ["n1.default-c1", "n2.default-c1"]
    assert with_id(endpoints, "c") == []
