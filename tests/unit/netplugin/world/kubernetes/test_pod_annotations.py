"""What a pod asks for by annotations."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from core.errors import Invalid
from netplugin.kube.resources import identity_and_ports
from netplugin.world.kubernetes.kube_pods import pod_of
from netplugin.world.kubernetes.pod_annotations import Wishes, wishes

POD = "shop/db-0"


def _wishes(controller: str = "", labels: dict[str, str] | None = None, **text: str) -> Wishes:
    annotations = {f"io.contiv.{name}": value for name, value in text.items()}
    return wishes(POD, annotations, labels or {}, controller)


def test_a_pod_without_annotations_asks_for_nothing() -> None:
    assert _wishes() == Wishes()
    assert _wishes(ip="", sticky="false", controller="ReplicaSet") == Wishes()


def test_addresses_are_read_in_any_of_their_forms() -> None:
    found = _wishes(ip="10.1.1.7", ip6="2001:DB8:0::0007", mac="52:54:00:AA:bb:cc")
    assert found == Wishes(IPv4Address("10.1.1.7"), IPv6Address("2001:db8::7"), "52:54:00:aa:bb:cc")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("ip", "10.1.1", "is not an IPv4 address"),
        ("ip", "10.1.1.7/24", "is not an IPv4 address"),
        ("ip", "2001:db8::7", "is not an IPv4 address"),
        ("ip6", "10.1.1.7", "is not an IPv6 address"),
        ("ip6", "fe80::1%eth0", "is not an IPv6 address"),
        ("mac", "52-54-00-aa-bb-cc", "is not a unicast MAC address"),
        ("mac", "53:54:00:aa:bb:cc", "is not a unicast MAC address"),
        ("sticky", "yes", "is not true or false"),
        ("sticky", "y" * 4000, "is not true or false"),
    ],
)
def test_other_text_is_refused_with_the_name_of_the_pod(name: str, text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as caught:
        wishes(POD, {f"io.contiv.{name}": text}, {}, "")
    assert str(caught.value).startswith(f"pod {POD}: annotation io.contiv.{name}: ")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("controller", ["", "StatefulSet"])
def test_addresses_are_kept_for_a_pod_that_comes_back(controller: str) -> None:
    assert _wishes(controller, sticky="true").keep == POD


@pytest.mark.parametrize("controller", ["ReplicaSet", "DaemonSet", "Job"])
def test_nothing_is_kept_for_names_that_never_come_back(controller: str) -> None:
    with pytest.raises(Invalid, match=f"a {controller} makes pods under names that never come"):
        _wishes(controller, sticky="true")


@pytest.mark.parametrize("label", ["vm.kubevirt.io/name", "kubevirt.io/domain"])
def test_a_machine_keeps_its_address_whatever_its_pod_is_called(label: str) -> None:
    found = _wishes("VirtualMachineInstance", {label: "web"}, sticky="true")
    assert found.keep == "shop/web@vm"


def test_what_is_kept_of_a_pod_has_its_wishes() -> None:
    received = {
        "metadata": {
            "name": "db-0",
            "namespace": "shop",
            "uid": "u1",
            "annotations": {"io.contiv.sticky": "true", "secret": "x"},
            "ownerReferences": [
                {"kind": "Other", "name": "o"},
                {"kind": "StatefulSet", "name": "db", "controller": True, "uid": "u0"},
            ],
        },
        "spec": {"containers": []},
    }
    reduced = identity_and_ports(received)
    assert "secret" not in str(reduced)
    pod = pod_of(reduced)
    assert (pod.controller, pod.wishes) == ("StatefulSet", Wishes(keep="shop/db-0"))
