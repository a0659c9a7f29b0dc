"""Flags are checked in the original's order, with the original's words."""

import pytest

from core.errors import UsageError
from daemons.listen_address import ListenAddress
from netmaster.settings import MasterSettings
from objdb.connect import StoreAddress, StoreKind
from tests.unit.netmaster.settings import resolved, settings_of


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"mode": ""}, "netmaster mode is not set"),
        ({"mode": "bad"}, "unknown netmaster mode: bad"),
        ({"netmode": ""}, "netmaster network mode is not set"),
        ({"netmode": "foo"}, "unknown netmaster network mode: foo"),
        ({"fwdmode": ""}, "netmaster forwarding mode is not set"),
        ({"fwdmode": "bad"}, "unknown netmaster forwarding mode: bad"),
        (
            {"fwdmode": "bridge"},
            'invalid netmaster forwarding mode: "bridge" (network mode: "vxlan")',
        ),
        (
            {"etcd": "http://x:1", "consul": "http://y:2"},
            (
                "ambiguous netmaster db endpoints, both etcd and consul specified: "
                "etcd: http://x:1, consul: http://y:2"
            ),
        ),
        ({"etcd": ","}, "invalid netmaster etcd endpoints: empty"),
        ({"external_address": ""}, "netmaster external-address is not set"),
        ({"external_address": "foo"}, "bind address is not in 'ip:port' format, got foo"),
        ({"external_address": "::1:80"}, "bind address is not in 'ip:port' format, got ::1:80"),
        ({"internal_address": "1.2.3:99999"}, "bind port is a integer between 1-65535, got 99999"),
        ({"internal_address": "1.2.3.4:x"}, "bind port is a integer between 1-65535, got x"),
        ({"infra": "bad"}, "Unknown netmaster infra type: bad"),
        ({"infra": "aci-opflex"}, "Unknown netmaster infra type: aci-opflex"),
        (
            {"ofnet_port": "70000"},
            "netmaster ofnet-port is an integer between 0-65535, got '70000'",
        ),
        ({"lease_ttl": "1"}, "netmaster lease-ttl is an integer between 2-3600, got '1'"),
    ],
)
def test_a_wrong_flag_is_named(flags: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        resolved(**flags)
    assert str(refusal.value) == text
    assert refusal.value.exit_code == 22


def test_the_first_wrong_flag_is_the_one_named() -> None:
    with pytest.raises(UsageError, match="mode: x"):
        resolved(mode="x", netmode="y", infra="z")


def test_choices_ignore_case() -> None:
    settings = resolved(mode="Kubernetes", netmode="VLAN", fwdmode="Bridge", infra="ACI")
    assert (settings.mode, settings.net_mode) == ("kubernetes", "vlan")
    assert (settings.fwd_mode, settings.infra) == ("bridge", "aci")


def test_every_store_endpoint_is_kept() -> None:
    assert resolved(etcd="http://a:1, http://b:2,").store.members == ("a:1", "b:2")
    assert resolved().store.members == ("127.0.0.1:2379",)


def test_the_internal_address_defaults_to_the_host_and_the_external_port() -> None:
    assert resolved().internal == ListenAddress("192.0.2.7", 9999)
    assert resolved(external_address="127.0.0.1:80").internal == ListenAddress("192.0.2.7", 80)
    assert resolved(internal_address=":8000").internal == ListenAddress("192.0.2.7", 8000)
    assert resolved(internal_address="0.0.0.0:8000").internal == ListenAddress("192.0.2.7", 8000)


@pytest.mark.parametrize(
    ("external", "internal", "single"),
    [
        ("0.0.0.0:9999", "10.0.0.1:9999", True),
        (":9999", "10.0.0.1:9999", True),
        ("10.0.0.1:9999", "10.0.0.1:9999", True),
        ("10.0.0.1:9999", "10.0.0.2:9999", False),
        ("0.0.0.0:9999", "10.0.0.1:9998", False),
    ],
)
def test_one_listener_serves_where_two_would_be_the_same(
    external: str, internal: str, *, single: bool
) -> None:
    assert resolved(external_address=external, internal_address=internal).single_listener is single


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mode", "docker", "--netmode", "vlan", "--fwdmode", "bridge"],
        ["-plugin-mode=docker", "-network-mode", "vlan", "-forward-mode=bridge"],
        ["--cluster-mode=docker", "-netmode=vlan", "--forward-mode", "bridge", "-json-log"],
        ["-mode", "docker", "-netmode", "vlan", "-fwdmode", "bridge", "--syslog=false"],
    ],
)
def test_every_spelling_of_a_flag_is_read(arguments: list[str]) -> None:
    more = ["-listen-url", ":1", "-control-url=10.0.0.1:2", "-infra-type=aci", "-plugin-name=p"]
    settings = settings_of([*arguments, *more, "-etcd", "http://e:1"])
    assert (settings.mode, settings.net_mode, settings.fwd_mode) == ("docker", "vlan", "bridge")
    assert (settings.external, settings.internal) == (
        ListenAddress("", 1),
        ListenAddress("10.0.0.1", 2),
    )
    assert (settings.infra, settings.plugin_name) == ("aci", "p")
    assert settings.store.members == ("e:1",)


def test_the_environment_stands_in_for_flags() -> None:
    environ = {
        "CONTIV_NETMASTER_MODE": "docker",
        "CONTIV_NETMASTER_NET_MODE": "vxlan",
        "CONTIV_NETMASTER_FORWARD_MODE": "routing",
        "CONTIV_NETMASTER_ETCD_ENDPOINTS": "http://e:1",
        "CONTIV_NETMASTER_EXTERNAL_ADDRESS": "10.0.0.1:1",
        "CONTIV_NETMASTER_INTERNAL_ADDRESS": "10.0.0.1:2",
        "CONTIV_NETMASTER_INFRA": "aci",
        "CONTIV_NETMASTER_PLUGIN_NAME": "p",
        "CONTIV_NETMASTER_OFNET_PORT": "0",
        "CONTIV_NETMASTER_ACI_GATEWAY": "http://gw:5000",
        "CONTIV_NETMASTER_DOCKER_SOCKET": "/d.sock",
        "CONTIV_NETMASTER_LEASE_TTL": "5",
        "CONTIV_NETMASTER_DEAD_HOST_AFTER": "7",
    }
    settings = settings_of(["--netmode", "vlan"], environ | {"X": "y"})
    assert settings == MasterSettings(
        mode="docker",
        net_mode="vlan",
        fwd_mode="routing",
        store=StoreAddress(StoreKind.ETCD, ("e:1",), secure=False),
        external=ListenAddress("10.0.0.1", 1),
        internal=ListenAddress("10.0.0.1", 2),
        infra="aci",
        plugin_name="p",
        ofnet_port=0,
        aci_gateway="http://gw:5000",
        docker_socket="/d.sock",
        lease_ttl=5,
        dead_host_after=7,
        store_history=600,
        address_cooldown=30,
        sticky_for=86_400,
    )


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(UsageError) as refusal:
        settings_of(["--bogus"])
    assert refusal.value.exit_code == 22
    assert "--bogus" in str(refusal.value)


@pytest.mark.parametrize(
    ("external", "internal", "single"),
    [
        ("[::]:9999", "[fd77::fe]:9999", True),
        ("0.0.0.0:9999", "[fd77::fe]:9999", False),
        ("[::]:9999", "192.0.2.1:9999", False),
        ("[fd77::fe]:9999", "[fd77::fe]:9999", True),
    ],
)
def test_a_master_is_found_by_ipv6(external: str, internal: str, single: bool) -> None:
    settings = resolved(external_address=external, internal_address=internal)
    assert (str(settings.external), str(settings.internal)) == (external, internal)
    assert settings.single_listener is single
