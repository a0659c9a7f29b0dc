"""The original's tests of profiles, contracts and the ACI gateway, by their number (A52-A85)."""

from typing import Any

import pytest

from core.ids import GroupKey
from state.records import GroupRecord
from tests.unit.netmaster.checklist import Checklist

PATH = "topology/pod-1/paths-101/pathep-[eth1/14]"
NODE = "topology/pod-1/node-101"


class ProfileChecklist(Checklist):
    """A checklist with a tenant `blue` that has two networks."""

    def __init__(self) -> None:
        super().__init__()
        self.tenant("blue")
        self.network("n1", tenant_name="blue")
        self.network("n2", "10.2.1.0/24", tenant_name="blue")

    def blue_epg(self, name: str, **more: Any) -> bool:
        body = {"tenantName": "blue", "groupName": name, "networkName": "n1"} | more
        return self.post("endpointGroups", f"{body['tenantName']}:{body['groupName']}", **body)

    def profile(self, name: str = "p", **more: Any) -> bool:
        body = {"DSCP": 3, "burst": 1500, "bandwidth": "5Mb", "profileName": name} | more
        return self.post("netprofiles", f"blue:{name}", tenantName="blue", **body)

    def contracts(self, name: str, kind: str) -> bool:
        body = {"contractsGroupName": name, "contractsType": kind, "contracts": ["dn"]}
        return self.post("extContractsGroups", f"blue:{name}", tenantName="blue", **body)

    def blue_app(self, name: str, *groups: str) -> bool:
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
def checklist() -> ProfileChecklist:
    return ProfileChecklist()


def test_a52_gateway_comes_and_goes(checklist: ProfileChecklist) -> None:
    assert checklist.aci(PATH)
    assert checklist.gone("aciGws", "aciGw")


@pytest.mark.parametrize(
    "bindings",
    [
        {"paths": "pod-1/paths-101/pathep-[eth1/14]"},
        {"paths": f"{PATH},pod-1/paths-101/pathep-[eth1/14]"},
        {"nodes": "topology/tor-1/node-101"},
    ],
)
def test_a53_malformed_bindings(checklist: ProfileChecklist, bindings: dict[str, str]) -> None:
    assert not checklist.aci(**bindings)


@pytest.mark.parametrize(("paths", "nodes"), [(2, 0), (4, 3), (0, 1)])
def test_a54_many_bindings(checklist: ProfileChecklist, paths: int, nodes: int) -> None:
    assert checklist.aci(",".join([PATH] * paths), ",".join([NODE] * nodes))


def test_a55_gateway_stays_while_there_are_profiles(checklist: ProfileChecklist) -> None:
    assert checklist.aci()
    assert checklist.blue_app("a")
    assert not checklist.gone("aciGws", "aciGw")
    assert checklist.gone("appProfiles", "blue:a")
    assert checklist.gone("aciGws", "aciGw")


def test_a69_kinds_of_contracts(checklist: ProfileChecklist) -> None:
    assert checklist.contracts("c1", "provided")
    assert checklist.contracts("c2", "consumed")
    assert not checklist.contracts("c3", "something")


def test_a70_and_a71_contracts_of_groups(checklist: ProfileChecklist) -> None:
    assert checklist.contracts("prov", "provided")
    assert checklist.contracts("cons", "consumed")
    for name, asked in (("g1", ["prov"]), ("g2", ["cons"]), ("g3", ["prov", "cons"])):
        assert checklist.blue_epg(name, extContractsGrps=asked)
    assert not checklist.gone("extContractsGroups", "blue:prov")
    assert not checklist.blue_epg("g4", extContractsGrps=["nope"])
    assert checklist.blue_app("a", "g1", "g2", "g3")
    assert checklist.gone("appProfiles", "blue:a")
    assert all(checklist.gone("endpointGroups", f"blue:{name}") for name in ("g1", "g2", "g3"))
    assert all(checklist.gone("extContractsGroups", f"blue:{name}") for name in ("prov", "cons"))


def test_a72_groups_of_app_profiles(checklist: ProfileChecklist) -> None:
    assert all(checklist.blue_epg(name) for name in ("g1", "g2", "g3"))
    assert checklist.blue_app("profile3", "g1", "g3")
    assert not checklist.gone("endpointGroups", "blue:g1")
    assert checklist.blue_app("profile3", "g1", "g2", "g3")
    assert not checklist.blue_app("profile4", "g1", "invalid")
    assert checklist.view.read("appProfile", "blue:profile4") is None
    shown = checklist.view.read("appProfile", "blue:profile3")
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
def test_a73_a76_and_a78_groups_that_cannot_be(
    checklist: ProfileChecklist, more: dict[str, str]
) -> None:
    assert not checklist.blue_epg("g1", **more)
    assert checklist.blue_epg("g1")


def test_a74_and_a75_state_follows_the_profile(checklist: ProfileChecklist) -> None:
    assert checklist.profile()
    assert checklist.blue_epg("g1", netProfile="p")
    assert checklist.granted() == ("5Mb", 3, 1500)
    assert checklist.profile(DSCP=9, burst=1650, bandwidth="900Mb")
    assert checklist.granted() == ("900Mb", 9, 1650)
    assert not checklist.gone("tenants", "blue")
    before = checklist.view.objects["netprofile"]["blue:p"]
    assert checklist.blue_epg("g1", netProfile="")
    assert checklist.granted() == ("", 0, 0)
    assert checklist.view.objects["netprofile"]["blue:p"] == before


def test_a77_names_are_free_again(checklist: ProfileChecklist) -> None:
    assert checklist.profile()
    assert checklist.blue_epg("g1", netProfile="p")
    assert checklist.gone("endpointGroups", "blue:g1")
    assert checklist.gone("netprofiles", "blue:p")
    assert checklist.blue_epg("g1")
    assert checklist.granted() == ("", 0, 0)
    assert checklist.profile(DSCP=1)
    assert checklist.granted() == ("", 0, 0)


def test_a79_and_a80_profiles_are_switched(checklist: ProfileChecklist) -> None:
    assert checklist.profile("netprofile")
    assert checklist.profile("netp", DSCP=5)
    assert checklist.blue_epg("g1", netProfile="netprofile")
    assert checklist.blue_epg("g1", netProfile="netp")
    assert checklist.granted() == ("5Mb", 5, 1500)
    assert checklist.profile("netp", DSCP=7, bandwidth="10gbps")
    assert checklist.granted() == ("10gbps", 7, 1500)
    assert not checklist.gone("netprofiles", "blue:netp")
    assert checklist.gone("netprofiles", "blue:netprofile")
    assert checklist.blue_epg("g1")
    assert checklist.granted() == ("", 0, 0)
    assert checklist.gone("netprofiles", "blue:netp")


def test_a81_zeros_are_values_too(checklist: ProfileChecklist) -> None:
    assert checklist.profile()
    assert checklist.blue_epg("g1", netProfile="p")
    assert checklist.profile(DSCP=0, burst=150)
    assert checklist.granted() == ("5Mb", 0, 150)
    assert checklist.profile(bandwidth="")
    assert checklist.granted() == ("", 3, 1500)
    assert checklist.profile(burst=0, bandwidth="20mb")
    assert checklist.granted() == ("20mb", 3, 0)


@pytest.mark.parametrize(
    "more", [{"bandwidth": "invalid"}, {"DSCP": 72}, {"DSCP": 72, "burst": 1}, {"burst": 1}]
)
def test_a82_profiles_that_cannot_be(checklist: ProfileChecklist, more: dict[str, Any]) -> None:
    assert not checklist.profile(**more)
    assert checklist.profile()
    assert not checklist.profile(**more)


@pytest.mark.parametrize(
    "bandwidth",
    ["10 Gbps", "10 Gb", "10 gb", "5Gb", "6gb", "3gbps", "3Gbps", "4g", "4G", "20mbps", ""],
)
def test_a83_bandwidths(checklist: ProfileChecklist, bandwidth: str) -> None:
    assert checklist.profile(bandwidth=bandwidth)


@pytest.mark.parametrize(
    "bandwidth",
    ["10 Gkms", "10 G12ms", "10 ms", "10 bms", "Gkms", "Gbps", "0 Gbps", " 10 Gbps"],
)
def test_a84_texts_that_are_no_bandwidth(checklist: ProfileChecklist, bandwidth: str) -> None:
    assert not checklist.profile(bandwidth=bandwidth)


def test_a85_what_is_not_there_and_what_is_needed(checklist: ProfileChecklist) -> None:
    assert not checklist.gone("netprofiles", "blue:invalid")
    assert checklist.profile()
    assert checklist.gone("networks", "blue:n1")
    assert checklist.gone("networks", "blue:n2")
    assert not checklist.gone("tenants", "blue")
    assert checklist.gone("netprofiles", "blue:p")
    assert checklist.gone("tenants", "blue")
