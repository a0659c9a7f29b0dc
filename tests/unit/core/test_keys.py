"""Store keys: building and parsing are inverse."""

import pytest

from core import keys
from core.ids import DocknetId, EndpointKey, GroupKey, HostLabel, NetworkId

NET = NetworkId("n1.default")


def test_keys_are_the_originals() -> None:
    assert keys.network(NET) == "/contiv.io/state/nets/n1.default"
    assert keys.endpoint(EndpointKey("n1.default-a/b")) == "/contiv.io/state/eps/n1.default-a/b"
    assert keys.group(GroupKey("web:blue")) == "/contiv.io/state/endpointGroups/web:blue"
    assert keys.docknet(DocknetId("blue.n1.web")) == "/contiv.io/oper/docknet/blue.n1.web"
    assert keys.GLOBAL_CONFIG == "/contiv.io/master/config/global"
    assert keys.LEADER_LOCK == "/contiv.io/lock/netmaster/leader"
    assert keys.service("netplugin", "10.0.0.1", 9002) == (
        "/contiv.io/service/netplugin/10.0.0.1:9002"
    )
    assert keys.host(HostLabel("h1")) == "/contiv.io/host/h1"
    assert keys.commit("w") == "/contiv.io/commit/w"


def test_prefixes_hold_their_keys_and_end_with_a_slash() -> None:
    held = {
        keys.OBJECTS: keys.obj("network", "default:n1"),
        keys.NETWORKS: keys.network(NET),
        keys.ENDPOINTS: keys.endpoint(EndpointKey("e")),
        keys.GROUPS: keys.group(GroupKey("g")),
        keys.DOCKNETS: keys.docknet(DocknetId("default.n1.")),
        keys.DOCKNET_DOUBTS: keys.docknet_doubt(DocknetId("default.n1.")),
        keys.MASTER_CONFIG: keys.GLOBAL_CONFIG,
        keys.HOSTS: keys.host(HostLabel("h")),
        keys.services("netplugin"): keys.service("netplugin", "a", 1),
        keys.grants(NET): keys.grant(NET, "10.1.0.1"),
        keys.GRANTS: keys.grants(NET),
        keys.LOCKS: keys.LEADER_LOCK,
        keys.COMMITS: keys.commit("w"),
    }
    for prefix, key in held.items():
        assert prefix.endswith("/")
        assert key.startswith(prefix)
        assert key.startswith(keys.ROOT)
    # `netplugin` must not see `netplugin.vtep`
    assert not keys.service(keys.SERVICE_VTEP, "a", 1).startswith(keys.services("netplugin"))


def test_what_others_write_is_not_the_leaders() -> None:
    written = [
        keys.COMPACTION,
        keys.host(HostLabel("h")),
        keys.service("netplugin", "a", 1),
        keys.LEADER_LOCK,
    ]
    assert not [key for key in written if key.startswith(keys.LEADER_PREFIXES)]


@pytest.mark.parametrize("name", ["default:n1", "a/b", "a:b:c"])
def test_an_objects_key_is_taken_apart(name: str) -> None:
    assert keys.parse_obj(keys.obj("network", name)) == ("network", name)


@pytest.mark.parametrize("address", ["10.1.0.1", "2001:db8::1"])
def test_a_grants_key_is_taken_apart(address: str) -> None:
    assert keys.parse_grant(keys.grant(NET, address)) == (NET, address)


@pytest.mark.parametrize(
    "key", ["", "/contiv.io/obj/modeldb/", "/contiv.io/obj/modeldb/network", "/other/network/x"]
)
def test_what_is_no_objects_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        keys.parse_obj(key)


@pytest.mark.parametrize("key", ["", "/contiv.io/ipam/", "/contiv.io/ipam/n", "/contiv.io/ipam//x"])
def test_what_is_no_grants_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        keys.parse_grant(key)


def test_what_follows_a_prefix() -> None:
    assert keys.after(keys.NETWORKS, keys.network(NET)) == NET
    with pytest.raises(ValueError, match="is not under"):
        keys.after(keys.HOSTS, keys.network(NET))
