"""The resources that are followed, and their paths."""

import pytest

from netplugin.kube.faults import rule
from netplugin.kube.resources import ENDPOINTS, NAMESPACES, SERVICES, SLICES, Resource, pods_of


@pytest.mark.parametrize(
    ("resource", "named", "path"),
    [
        (SERVICES, (), "/api/v1/services"),
        (SLICES, (), "/apis/discovery.k8s.io/v1/endpointslices"),
        (pods_of("n1"), ("shop", "web/1"), "/api/v1/namespaces/shop/pods/web%2F1"),
        (NAMESPACES, ("", "shop"), "/api/v1/namespaces/shop"),
    ],
)
def test_paths(resource: Resource, named: tuple[str, ...], path: str) -> None:
    assert resource.path(resource.versions[0], *named) == path


def test_groups() -> None:
    assert (SERVICES.group, SLICES.group) == ("", "discovery.k8s.io")
    assert SLICES.alternatives() == (SLICES, ENDPOINTS)
    assert pods_of("n1").selector == "spec.nodeName=n1"
    assert rule(SERVICES) == (
        '- {apiGroups: [""], resources: ["services"], verbs: ["get", "list", "watch"]}'
    )
