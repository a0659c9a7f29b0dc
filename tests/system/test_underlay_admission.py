"""No network takes an address that hosts, masters or the store need, in any way into the store.

The hosts are at .1 and .2 of 192.168.77.0/24, master and store at .254.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from tests.bed.cluster import Bed
from tests.bed.waiting import eventually
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.ovs]

MASTER = "192.168.77.254, the control address of master 192.168.77.254:9999"
HOST = "192.168.77.1, the tunnel address of host h1"
TAKEN: Mapping[str, tuple[Mapping[str, str], str]] = {
    "half": ({"subnet": "192.168.77.128/25"}, MASTER),
    "few": ({"subnet": "192.168.77.252/30"}, MASTER),
    "on-hosts": ({"subnet": "192.168.77.252/30", "nwType": "infra"}, MASTER),
    "one-address": ({"subnet": "192.168.77.254-192.168.77.254/24"}, HOST),
    "on-wire": ({"subnet": "192.168.77.254-192.168.77.254/24", "encap": "vlan"}, MASTER),
    "same": ({"subnet": "192.168.77.0/24"}, HOST),
    "router": ({"subnet": "192.168.77.64/26"}, "192.168.77.126, a next hop of host h2"),
    "private": ({"subnet": "172.19.0.0/16"}, "the private subnet of all hosts"),
    "local": ({"subnet": "169.254.0.0/16"}, "has no addresses that endpoints could use"),
}


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Have the agents look at routes often."""
    return {"netplugin": ["--audit-interval", "2"]}


@pytest.fixture(scope="module", autouse=True)
def evil(bed: Bed) -> None:
    """Make the tenants, and give one host a default route."""
    bed.netctl("tenant", "create", "evil")
    bed.netctl("tenant", "create", "red")
    host = bed.hosts[1]
    host.namespace.run(["ip", "route", "add", "default", "via", "192.168.77.126"])
    url = "/api/v2/networks?dryRun=true"
    eventually(
        lambda: ask(bed, "POST", url, posted("x", TAKEN["router"][0])).status == 409,
        "the master knows the next hop of h2",
    )


def posted(name: str, fields: Mapping[str, str], tenant: str = "evil") -> dict[str, str]:
    return {"tenantName": tenant, "networkName": name, "encap": "vxlan", **fields}


@pytest.mark.parametrize("name", TAKEN)
def test_a_network_that_takes_what_hosts_need_is_refused(bed: Bed, name: str) -> None:
    fields, why = TAKEN[name]
    body = posted(name, fields)
    old = ask(bed, "POST", f"/api/v1/networks/evil:{name}/", {**body, "nwType": "data", **fields})
    assert (old.status, why in old.text) == (500, True), old
    for query in ("", "?dryRun=true"):
        new = ask(bed, "POST", f"/api/v2/networks{query}", body)
        assert new.status in {409, 422}, new
        assert why in new.json()["detail"]
    whole = ask(bed, "PUT", f"/api/v2/networks/evil:{name}", body)
    assert whole.status in {409, 422}
    told = bed.netctl("net", "ls", "-t", "evil", "-q")
    assert name not in told


def test_hosts_and_pods_go_on(bed: Bed) -> None:
    pods = [bed.add_pod(host, f"on-{host.label}") for host in bed.hosts]
    for one, other in product(pods, pods):
        if one is not other:
            eventually(
                lambda: one.ping(other.address),  # noqa: B023 - now
                f"{one.name} reaches {other.name}",
            )
    for host in bed.hosts:
        way = host.namespace.run(["ip", "route", "get", bed.fabric.address]).stdout
        assert "contiv" not in way
    for pod in pods:
        bed.delete_pod(pod)


def test_settings_may_not_take_the_underlay_either(bed: Bed) -> None:
    current = ask(bed, "GET", "/api/v1/globals/global/").json()
    answer = ask(bed, "POST", "/api/v1/globals/global/", {**current, "pvtSubnet": "192.168.0.0/16"})
    assert answer.status == 500  # there is a network, which forbids any change of it


def test_vlan_networks_of_two_tenants_do_not_overlap(bed: Bed) -> None:
    red = {"subnet": "10.30.0.0/24", "gateway": "10.30.0.254", "encap": "vlan"}
    assert ask(bed, "POST", "/api/v2/networks", posted("rn", red, "red")).status == 201
    pod = bed.add_pod(bed.hosts[0], "r1", tenant="red", network="rn")
    for subnet in ("10.30.0.0/24", "10.30.0.200-10.30.0.210/24"):
        answer = ask(bed, "POST", "/api/v2/networks", posted("bn", {**red, "subnet": subnet}))
        assert answer.status == 409
        assert "overlaps a network of another tenant" in answer.json()["detail"]
    own = {"subnet": "10.31.0.0/24", "encap": "vlan"}
    assert ask(bed, "POST", "/api/v2/networks", posted("bn", own)).status == 201
    service = {
        "tenantName": "evil",
        "serviceName": "evil",
        "networkName": "bn",
        "ipAddress": pod.address,
        "ports": ["80:80:TCP"],
        "selectors": ["evil=yes"],
    }
    answer = ask(bed, "POST", "/api/v2/serviceLBs", service)
    assert answer.status in {409, 422}, answer
    bed.delete_pod(pod)


def test_a_host_that_gets_such_an_address_later_names_it(bed: Bed) -> None:
    body = posted("late", {"subnet": "10.55.0.0/24", "gateway": "10.55.0.254"})
    assert ask(bed, "POST", "/api/v2/networks", body).status == 201
    host = bed.hosts[0]
    host.namespace.run(["ip", "address", "add", "10.55.0.1/32", "dev", "lo"])

    def errors() -> str:
        return json.dumps(ask(bed, "GET", "/hosts/h1").json())

    text = "subnet 10.55.0.0/24 of network late.evil holds 10.55.0.1, an address of host h1"
    eventually(lambda: text in errors(), "the host names it")
    pod = bed.add_pod(host, "p1", tenant="evil", network="late")
    assert pod.address == "10.55.0.2"
    bed.delete_pod(pod)
    assert "network takes an address that hosts need" in bed.netmaster.log.read_text()
    host.namespace.run(["ip", "address", "del", "10.55.0.1/32", "dev", "lo"])
    eventually(lambda: text not in errors(), "the error ends")
