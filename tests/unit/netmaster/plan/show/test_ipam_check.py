"""What is found wrong with addresses, what is mended, and what is left to a user."""

from dataclasses import replace

import pytest

from core import keys
from core.ids import HostLabel, NetworkId
from netmaster import codec
from netmaster.plan.show import ipam_check
from netmaster.plan.show.ipam_check import IpamFinding, IpamFindingKind
from netmaster.stored import Stored
from state.records import GrantOwner, GrantRecord
from tests.unit.netmaster.scene import NOW, Scene

N1 = NetworkId("n1.default")


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.network(
        "n1", gateway="10.1.1.254", ipv6_subnet="2001:db8::/120", ipv6_gateway="2001:db8::1"
    )
    scene.endpoint("c1")
    scene.endpoint("c2")
    scene.service_lb("web")
    scene.allocate()
    return scene


def foreign(scene: Scene, key: str, record: Stored | None) -> None:
    """Write to the store as another program, and rebuild the view."""
    if record is None:
        del scene.store[key]
    else:
        scene.store[key] = codec.encode(record)
    scene.reload()


def found(scene: Scene, now: float = NOW) -> list[IpamFinding]:
    return list(ipam_check.findings(scene.view, now))


def mend(scene: Scene, now: float = NOW) -> list[IpamFinding]:
    mended: list[IpamFinding] = []
    places = ipam_check.suspected(scene.view, now)
    while part := scene.do(ipam_check.fix, now, places):
        mended += part
    return mended


def grant(owner: GrantOwner, owner_id: str) -> GrantRecord:
    return GrantRecord(owner=owner, owner_id=owner_id, seq=900, granted_at=5.0)


def test_what_netmaster_writes_is_in_order(scene: Scene) -> None:
    assert found(scene) == []
    assert mend(scene) == []
    scene.delete_endpoint("c1")
    assert found(scene) == []


@pytest.mark.parametrize(
    ("owner", "owner_id"),
    [
        (GrantOwner.ENDPOINT, "n1.default-gone"),
        (GrantOwner.ENDPOINT, "n1.default-c1"),
        (GrantOwner.GATEWAY, "n1.default"),
        (GrantOwner.VIP, "gone:default"),
    ],
)
@pytest.mark.parametrize("address", ["10.1.1.9", "2001:db8::9"])
def test_an_unused_grant_is_released(
    scene: Scene, owner: GrantOwner, owner_id: str, address: str
) -> None:
    before = dict(scene.store)
    foreign(scene, keys.grant(N1, address), grant(owner, owner_id))
    (finding,) = found(scene)
    assert (finding.kind, finding.address, finding.since) == (IpamFindingKind.UNUSED, address, 5.0)
    assert finding.owner == f"{owner} {owner_id}"
    assert mend(scene) == [finding]
    assert scene.store == before


@pytest.mark.parametrize(
    "address", ["10.1.1.1", "10.1.1.3", "10.1.1.254", "2001:db8::1", "2001:db8::2"]
)
def test_a_user_without_grant_gets_it_back(scene: Scene, address: str) -> None:
    held = scene.view.addresses[N1].grants[address]
    foreign(scene, keys.grant(N1, address), None)
    (finding,) = found(scene)
    assert (finding.kind, finding.address) == (IpamFindingKind.MISSING, address)
    assert mend(scene) == [finding]
    again = scene.view.addresses[N1].grants[address]
    assert (again.owner, again.owner_id) == (held.owner, held.owner_id)
    assert again.seq != held.seq
    assert found(scene) == []


def test_what_is_elsewhere_is_left(scene: Scene) -> None:
    for address in ("10.1.1.8", "10.1.1.9"):
        foreign(scene, keys.grant(N1, address), grant(GrantOwner.ENDPOINT, "n1.default-gone"))
    (mended,) = scene.do(ipam_check.fix, NOW, {(N1, "10.1.1.9")})
    assert mended.address == "10.1.1.9"
    assert [finding.address for finding in found(scene)] == ["10.1.1.8"]


def test_a_grant_to_the_wrong_one_becomes_its_users(scene: Scene) -> None:
    foreign(scene, keys.grant(N1, "10.1.1.1"), grant(GrantOwner.ENDPOINT, "n1.default-gone"))
    assert [finding.kind for finding in mend(scene)] == [
        IpamFindingKind.UNUSED,
        IpamFindingKind.MISSING,
    ]
    assert scene.view.addresses[N1].grants["10.1.1.1"].owner_id == "n1.default-c1"
    assert found(scene) == []


def test_of_two_users_neither_is_touched(scene: Scene) -> None:
    c1, c2 = (scene.view.endpoints[key] for key in sorted(scene.view.endpoints))
    foreign(scene, keys.endpoint(c2.key), replace(c2, ip_address=c1.ip_address))
    assert {(finding.kind, finding.address) for finding in found(scene)} == {
        (IpamFindingKind.CONTESTED, c1.ip_address),
        (IpamFindingKind.UNUSED, c2.ip_address),
    }
    mend(scene)
    assert scene.view.addresses[N1].grants["10.1.1.1"].owner_id == c1.key
    assert set(scene.view.endpoints) == {c1.key, c2.key}
    assert [finding.kind for finding in found(scene)] == [IpamFindingKind.CONTESTED]


def test_of_two_users_without_a_grant_neither_is_preferred(scene: Scene) -> None:
    c1, c2 = (scene.view.endpoints[key] for key in sorted(scene.view.endpoints))
    foreign(scene, keys.endpoint(c2.key), replace(c2, ip_address=c1.ip_address))
    foreign(scene, keys.grant(N1, c1.ip_address), None)
    foreign(scene, keys.grant(N1, c2.ip_address), None)
    assert [finding.kind for finding in found(scene)] == [IpamFindingKind.CONTESTED] * 2
    assert mend(scene) == []


def test_a_reservation_is_left_to_its_grace(scene: Scene) -> None:
    (key,) = scene.view.reservations
    assert found(scene, 9 * NOW) == []
    (finding,) = ipam_check.findings(scene.view, NOW, overdue={key})
    assert (finding.kind, finding.since) == (IpamFindingKind.OVERDUE, NOW)
    assert ipam_check.suspected(scene.view, NOW, {key}) == {finding.place}
    assert scene.do(ipam_check.fix, NOW, {finding.place}, {key}) == [finding]
    assert key not in scene.store


def test_an_endpoint_on_a_reserved_address_is_left_to_a_user(scene: Scene) -> None:
    reserved = replace(grant(GrantOwner.RESERVATION, ""), granted_at=NOW)
    foreign(scene, keys.grant(N1, "10.1.1.1"), reserved)
    (finding,) = found(scene)
    assert (finding.kind, finding.repair) == (IpamFindingKind.CONTESTED, None)


@pytest.mark.parametrize("address", ["10.9.9.9", "010.1.1.1", "x", "2001:DB8::77", "2001:db9::1"])
def test_an_address_outside_the_subnet_is_not_granted(scene: Scene, address: str) -> None:
    record = scene.view.endpoints[min(scene.view.endpoints)]
    foreign(scene, keys.endpoint(record.key), replace(record, ipv6_address=address))
    foreign(scene, keys.grant(N1, record.ipv6_address), None)
    (finding,) = found(scene)
    assert (finding.kind, finding.repair) == (IpamFindingKind.MISSING, None)
    assert mend(scene) == []


def test_endpoints_of_unknown_hosts_are_found(scene: Scene) -> None:
    scene.endpoint("c3", host="")
    unknown = list(ipam_check.findings(scene.view, NOW, {HostLabel("h2")}))
    assert {(finding.kind, finding.remedy) for finding in unknown} == {
        (IpamFindingKind.HOMELESS, "nothing: netctl host rm h1 --force"),
        (IpamFindingKind.HOMELESS, "nothing: delete the endpoint"),
    }
    assert list(ipam_check.findings(scene.view, NOW, {HostLabel("h1"), HostLabel("")})) == []


def test_many_findings_are_repaired_in_parts(scene: Scene) -> None:
    for number in range(ipam_check.CHUNK + 3):
        address = f"10.1.1.{number + 20}"
        scene.store[keys.grant(N1, address)] = codec.encode(grant(GrantOwner.ENDPOINT, "x"))
    scene.reload()
    places = ipam_check.suspected(scene.view, NOW)
    assert len(scene.do(ipam_check.fix, NOW, places)) == ipam_check.CHUNK
    assert len(mend(scene)) == 3


def test_counts(scene: Scene) -> None:
    assert ipam_check.counts(scene.view) == {
        "endpoints": 2,
        "held by gateway": 2,
        "held by reservation": 1,
        "held by endpoint": 4,
        "held by vip": 1,
        "held by block": 0,
    }
