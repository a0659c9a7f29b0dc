"""Kinds of policies that are installed and not followed are told."""

import pytest

from netplugin.kube.policy_kinds import unfollowed


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ({}, []),
        ({"v1alpha2": ["clusternetworkpolicies"]}, []),
        ({"v1alpha1": ["adminnetworkpolicies", "baselineadminnetworkpolicies"]}, []),
        ({"v1alpha2": ["clusternetworkpolicies"], "v1": ["clusternetworkpolicies"]}, []),
        (
            {"v1beta1": ["clusternetworkpolicies"], "v1": ["clusternetworkpolicies"]},
            ["clusternetworkpolicies", "as v1, v1beta1, which", "serve v1alpha2"],
        ),
        ({"v1alpha2": ["adminnetworkpolicies"]}, ["adminnetworkpolicies", "serve v1alpha1"]),
        ({"v1": ["meshpolicies"]}, ["meshpolicies", "write clusternetworkpolicies"]),
    ],
)
def test_kinds(served: dict[str, list[str]], said: list[str]) -> None:
    found = unfollowed(served)
    assert len(found) == bool(said)
    assert all(word in found[0] for word in said)
