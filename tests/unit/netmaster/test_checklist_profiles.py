"""The original's tests of profiles, contracts and the ACI gateway, by their number (A52-A85)."""

import json
from typing import Any

import pytest

from core.errors import ContivError
from core.ids import GroupKey
from netmaster.api.v1 import objects
from netmaster.api.v1.objects import OBJECT_CLASSES
from state.records import GroupRecord
from tests.unit.netmaster.scene import Scene

PATH = "topology/pod-1/paths-101/pathep-[eth1/14]"
NODE = "topology/pod-1/node-101"


class Site(Scene):
    """A tenant `blue` with two networks; bodies in, success or failure out."""

    def __init__(self) -> None:
        super().__init__()
        self.tenant("blue")
        self.network("n1", tenant_name="blue")
        self.network("n2", "10.2.1.0/24", tenant_name="blue")

    def post(self, plural: str, key: str, **body: Any) -> bool:
        """Say whether an object is accepted."""
        try:
            self.do(objects.write(OBJECT_CLASSES[plural], key, json.dumps(body).encode()))
        except ContivError:
            return False
        return True

    def gone(self, plural: str, key: str) -> bool:
        """Say whether an object could be deleted."""
        try:
            self.do(OBJECT_CLASSES[plural].delete, key)
        except ContivError:
            return False
        return True

    def epg(self, name: str, **more: Any) -> bool:
        body = {"tenantName": "blue", "groupName": name, "networkName": "n1"} | more
        return self.post("endpointGroups", f"{body['tenantName']}:{body['groupName']}", **body)

    def profile(self, name: str = "p", **more: Any) -> bool:
        body = {"DSCP": 3, "burst": 1500, "bandwidth": "5Mb", "profileName": name} | more
        return self.post("netprofiles", f"blue:{name}", tenantName="blue", **body)

    def contracts(self, name: str, kind: str) -> bool:
        body = {"contractsGroupName": name, "contractsType": kind, "contracts": ["dn"]}
        return self.post("extContractsGroups", f"blue:{name}", tenantName="blue", **body)

    def app(self, name: str, *groups: str) -> bool:
        body = {"appProfileName": name, "endpointGroups": list(groups), "tenantName": "blue"}
        return self.post("appProfiles", f"blue:{name}", **body)

    def aci(self, paths: str = "", nodes: str = "") -> bool:
        body = {"pathBindings": paths, "nodeBindings": nodes, "physicalDomain": "testDom"}
        yes = {"enforcePolicies": "yes", "includeCommonTenant": "yes"}
        return self.post("aciGws", "aciGw", name="aciGw", **body, **yes)

    def record(self, name: str = "g1") -> GroupRecord:
        return self.view.groups[GroupKey(f"{name}:blue")]

    def granted(self, name: str = "g1") -> tuple[str, int, int]:
        record = self.record(name)
        return record.bandwidth, record.dscp, record.burst


@pytest.fixture
def site() -> Site:
    return Site()


def test_a52_gateway_comes_and_goes(site: Site) -> None:
    assert site.aci(PATH)
    assert site.gone("aciGws", "aciGw")


@pytest.mark.parametrize(
    "bindings",
    [
        {"paths": "pod-1/paths-101/pathep-[eth1/14]"},
        {"paths": f"{PATH},pod-1/paths-101/pathep-[eth1/14]"},
        {"nodes": "topology/tor-1/node-101"},
    ],
)
def test_a53_malformed_bindings(site: Site, bindings: dict[str, str]) -> None:
    assert not site.aci(**bindings)


@pytest.mark.parametrize(("paths", "nodes"), [(2, 0), (4, 3), (0, 1)])
def test_a54_many_bindings(site: Site, paths: int, nodes: int) -> None:
    assert site.aci(",".join([PATH] * paths), ",".join([NODE] * nodes))


def test_a55_gateway_stays_while_there_are_profiles(site: Site) -> None:
    assert site.aci()
    assert site.app("a")
    assert not site.gone("aciGws", "aciGw")
    assert site.gone("appProfiles", "blue:a")
    assert site.gone("aciGws", "aciGw")


def test_a69_kinds_of_contracts(site: Site) -> None:
    assert site.contracts("c1", "provided")
    assert site.contracts("c2", "consumed")
    assert not site.contracts("c3", "something")


def test_a70_and_a71_contracts_of_groups(site: Site) -> None:
    assert site.contracts("prov", "provided")
    assert site.contracts("cons", "consumed")
    for name, asked in (("g1", ["prov"]), ("g2", ["cons"]), ("g3", ["prov", "cons"])):
        assert site.epg(name, extContractsGrps=asked)
    assert not site.gone("extContractsGroups", "blue:prov")
    assert not site.epg("g4", extContractsGrps=["nope"])
    assert site.app("a", "g1", "g2", "g3")
    assert site.gone("appProfiles", "blue:a")
    assert all(site.gone("endpointGroups", f"blue:{name}") for name in ("g1", "g2", "g3"))
    assert all(site.gone("extContractsGroups", f"blue:{name}") for name in ("prov", "cons"))


def test_a72_groups_of_app_profiles(site: Site) -> None:
    assert all(site.epg(name) for name in ("g1", "g2", "g3"))
    assert site.app("profile3", "g1", "g3")
    assert not site.gone("endpointGroups", "blue:g1")
    assert site.app("profile3", "g1", "g2", "g3")
    assert not site.app("profile4", "g1", "invalid")
    assert site.view.read("appProfile", "blue:profile4") is None
    shown = site.view.read("appProfile", "blue:profile3")
    assert shown is not None
    assert getattr(shown, "endpoint_groups", []) == ["g1", "g2", "g3"]


@pytest.mark.parametrize(
    "more",
    [
        {"tenantName": "invalid"},
        {"tenantName": ""},
        {"networkName": "invalid"},
        {"networkName": ""},
        {"groupName": "in_valid"},
        {"groupName": ""},
        {"netProfile": "invalid"},
    ],
)
def test_a73_a76_and_a78_groups_that_cannot_be(site: Site, more: dict[str, str]) -> None:
    assert not site.epg("g1", **more)
    assert site.epg("g1")


def test_a74_and_a75_state_follows_the_profile(site: Site) -> None:
    assert site.profile()
    assert site.epg("g1", netProfile="p")
    assert site.granted() == ("5Mb", 3, 1500)
    assert site.profile(DSCP=9, burst=1650, bandwidth="900Mb")
    assert site.granted() == ("900Mb", 9, 1650)
    assert not site.gone("tenants", "blue")
    before = site.view.objects["netprofile"]["blue:p"]
    assert site.epg("g1", netProfile="")
    assert site.granted() == ("", 0, 0)
    assert site.view.objects["netprofile"]["blue:p"] == before


def test_a77_names_are_free_again(site: Site) -> None:
    assert site.profile()
    assert site.epg("g1", netProfile="p")
    assert site.gone("endpointGroups", "blue:g1")
    assert site.gone("netprofiles", "blue:p")
    assert site.epg("g1")
    assert site.granted() == ("", 0, 0)
    assert site.profile(DSCP=1)
    assert site.granted() == ("", 0, 0)


def test_a79_and_a80_profiles_are_switched(site: Site) -> None:
    assert site.profile("netprofile")
    assert site.profile("netp", DSCP=5)
    assert site.epg("g1", netProfile="netprofile")
    assert site.epg("g1", netProfile="netp")
    assert site.granted() == ("5Mb", 5, 1500)
    assert site.profile("netp", DSCP=7, bandwidth="10gbps")
    assert site.granted() == ("10gbps", 7, 1500)
    assert not site.gone("netprofiles", "blue:netp")
    assert site.gone("netprofiles", "blue:netprofile")
    assert site.epg("g1")
    assert site.granted() == ("", 0, 0)
    assert site.gone("netprofiles", "blue:netp")


def test_a81_zeros_are_values_too(site: Site) -> None:
    assert site.profile()
    assert site.epg("g1", netProfile="p")
    assert site.profile(DSCP=0, burst=150)
    assert site.granted() == ("5Mb", 0, 150)
    assert site.profile(bandwidth="")
    assert site.granted() == ("", 3, 1500)
    assert site.profile(burst=0, bandwidth="20mb")
    assert site.granted() == ("20mb", 3, 0)


@pytest.mark.parametrize(
    "more", [{"bandwidth": "invalid"}, {"DSCP": 72}, {"DSCP": 72, "burst": 1}, {"burst": 1}]
)
def test_a82_profiles_that_cannot_be(site: Site, more: dict[str, Any]) -> None:
    assert not site.profile(**more)
    assert site.profile()
    assert not site.profile(**more)


@pytest.mark.parametrize(
    "bandwidth",
    ["10 Gbps", "10 Gb", "10 gb", "5Gb", "6gb", "3gbps", "3Gbps", "4g", "4G", "20mbps", ""],
)
def test_a83_bandwidths(site: Site, bandwidth: str) -> None:
    assert site.profile(bandwidth=bandwidth)


@pytest.mark.parametrize(
    "bandwidth",
    ["10 Gkms", "10 G12ms", "10 ms", "10 bms", "Gkms", "Gbps", "0 Gbps", " 10 Gbps"],
)
def test_a84_texts_that_are_no_bandwidth(site: Site, bandwidth: str) -> None:
    assert not site.profile(bandwidth=bandwidth)


def test_a85_what_is_not_there_and_what_is_needed(site: Site) -> None:
    assert not site.gone("netprofiles", "blue:invalid")
    assert site.profile()
    assert site.gone("networks", "blue:n1")
    assert site.gone("networks", "blue:n2")
    assert not site.gone("tenants", "blue")
    assert site.gone("netprofiles", "blue:p")
    assert site.gone("tenants", "blue")
