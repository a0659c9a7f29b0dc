"""The agent's flags are checked in the original's order, with the original's words."""

import socket
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from daemons import flags
from daemons.listen_address import ListenAddress
from netplugin.settings import (
    FLAGS,
    MOST_NAMED_PODS,
    AgentSettings,
    DockerScope,
    DockerSettings,
    resolve,
)
from objdb.connect import StoreAddress, StoreKind
from ofnet.world import TUNNEL_SOURCES4, FwdMode, ManagementPort
from state.records import Encap
from tests.unit.netplugin.settings import settings_of

GOOD = {"mode": "kubernetes", "netmode": "vxlan", "fwdmode": "routing"}


def resolved(**changes: str) -> AgentSettings:
    given = {**GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return settings_of([f"--{name}={value}" for name, value in given.items()])


def refusal_of(**changes: str) -> str:
    with pytest.raises(UsageError) as refusal:
        resolved(**changes)
    assert refusal.value.exit_code == 22
    return str(refusal.value)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"mode": ""}, "netplugin mode is not set"),
        ({"mode": "bad"}, "unknown netplugin mode: bad"),
        ({"netmode": ""}, "netplugin network mode is not set"),
        (
            {"fwdmode": "bridge"},
            'invalid netplugin forwarding mode: "bridge" (network mode: "vxlan")',
        ),
        (
            {"netmode": "vlan", "fwdmode": "bridge"},
            "vlan-uplinks must be set when using VLAN mode",
        ),
        ({"netmode": "vlan", "vlan_uplinks": " , ,"}, "vlan-uplinks must be set when using VLAN"),
        (
            {"etcd": "http://x:1", "consul": "http://y:2"},
            "ambiguous netplugin db endpoints, both etcd and consul specified",
        ),
        ({"etcd": ","}, "invalid netplugin etcd endpoints: empty"),
        ({"host": "a/b"}, "invalid netplugin host label: 'a/b'"),
        ({"host": "a\nb"}, "invalid netplugin host label"),
        ({"ctrl_ip": "bad"}, "invalid netplugin control IP: bad"),
        ({"ctrl_ip": "fd77::1/64"}, "invalid netplugin control IP: fd77::1/64"),
        ({"vtep_ip": "fd77::1,fd77::2"}, "VTEP IP: fd77::1,fd77::2, two addresses of one family"),
        ({"vtep_ip": "192.0.2.1,"}, "invalid netplugin VTEP IP: "),
        ({"rest_address": "fd77::1:9090"}, "bind address is not in 'ip:port' format"),
        ({"rest_address": "[x]:9090"}, "bind address is not in 'ip:port' format, got [x]:9090"),
        ({"vtep_ip": "10.0.0.1/24"}, "invalid netplugin VTEP IP: 10.0.0.1/24"),
        ({"vxlan_port": "abc"}, "netplugin vxlan-port is an integer between 1-65535, got 'abc'"),
        ({"vxlan_port": "0"}, "netplugin vxlan-port is an integer between 1-65535, got '0'"),
        ({"vxlan_rpc_port": "65536"}, "netplugin vxlan-rpc-port is an integer between 0-65535"),
        ({"vlan_rpc_port": "x"}, "netplugin vlan-rpc-port is an integer"),
        ({"vxlan_openflow_port": "x"}, "netplugin vxlan-openflow-port is an integer"),
        ({"vlan_openflow_port": "-1"}, "netplugin vlan-openflow-port is an integer"),
        ({"dns-address": "ns"}, "invalid netplugin DNS address: ns"),
        ({"dns-upstream": "10.0.0.1,ns"}, "invalid netplugin DNS upstream: ns"),
        ({"cluster-domain": "a b"}, "cluster-domain must be a DNS name, got 'a b'"),
        ({"dns-rate": "-1"}, "netplugin dns-rate is an integer between 0-1000000, got '-1'"),
        ({"mtu": "1279"}, "netplugin mtu is an integer between 1280-65535, got '1279'"),
        ({"probe_interval": "-1"}, "netplugin probe-interval is an integer between 0-86400"),
        ({"audit_interval": "0"}, "netplugin audit-interval is an integer between 1-86400"),
        ({"rest_address": "9090"}, "bind address is not in 'ip:port' format, got 9090"),
        ({"rest_address": "a:70000"}, "bind address is not in 'ip:port' format, got a:70000"),
        ({"rest_address": "a:"}, "bind address is not in 'ip:port' format, got a:"),
    ],
)
def test_a_wrong_flag_is_named(flags: dict[str, str], text: str) -> None:
    assert text in refusal_of(**flags)


@pytest.mark.parametrize(
    ("first", "says"),
    [
        ({"mode": "x"}, "unknown netplugin mode"),
        ({"netmode": "x"}, "unknown netplugin network mode"),
        ({"fwdmode": "x"}, "unknown netplugin forwarding mode"),
        ({"etcd": "x"}, "invalid netplugin etcd endpoint"),
        ({"host": "/"}, "invalid netplugin host label"),
        ({"ctrl_ip": "x"}, "invalid netplugin control IP"),
        ({"vtep_ip": "x"}, "invalid netplugin VTEP IP"),
        ({"netmode": "vlan"}, "vlan-uplinks must be set"),
        ({"vxlan_port": "x"}, "vxlan-port is an integer"),
    ],
)
def test_the_first_wrong_flag_of_the_originals_order_is_the_one_named(
    first: dict[str, str], says: str
) -> None:
    order = ["mode", "netmode", "fwdmode", "etcd", "host", "ctrl_ip", "vtep_ip", "", "vxlan_port"]
    wrong: dict[str, str] = {**dict.fromkeys(order, "x"), "host": "/"}
    (name,) = first
    place = order.index("") if first == {"netmode": "vlan"} else order.index(name)
    later = {flag: wrong[flag] for flag in order[place + 1 :] if flag}
    assert says in refusal_of(**{**later, **first})


def test_a_control_address_of_ipv6() -> None:
    settings = resolved(ctrl_ip="fd77::1", vtep_ip="192.0.2.7")
    assert (settings.ctrl_ip, settings.rest) == (
        IPv6Address("fd77::1"),
        ListenAddress("fd77::1", 9090),
    )
    assert str(settings.rest) == "[fd77::1]:9090"
    assert resolved(rest_address="[::]:9090").rest == ListenAddress("::", 9090)


def test_tunnel_addresses_of_ipv6_and_of_both_families() -> None:
    settings = resolved(ctrl_ip="fd77::1")
    assert settings.vtep_ips == (IPv6Address("fd77::1"),)
    assert settings.tunnel_source in TUNNEL_SOURCES4
    both = resolved(vtep_ip="fd77::7, 192.0.2.7")
    assert both.vtep_ips == (IPv4Address("192.0.2.7"), IPv6Address("fd77::7"))
    assert both.tunnel_source == IPv4Address("192.0.2.7")


def test_what_is_not_given_has_the_originals_defaults() -> None:
    assert resolved() == AgentSettings(
        mode="kubernetes",
        fwd_mode=FwdMode.ROUTING,
        store=StoreAddress(StoreKind.ETCD, ("127.0.0.1:2379",), secure=False),
        host=socket.gethostname(),  # type: ignore[arg-type]
        ctrl_ip=IPv4Address("192.0.2.7"),
        vtep_ip=IPv4Address("192.0.2.7"),
        uplinks=(),
        vxlan_port=4789,
        journal=Path("/var/lib/contiv/netplugin/endpoints"),
        run_dir=Path("/run/contiv"),
        cni_socket=Path("/run/contiv/contiv-cni.sock"),
        ovsdb="unix:/var/run/openvswitch/db.sock",
        rest=ListenAddress("192.0.2.7", 9090),
        vxlan_rpc_port=9002,
        vlan_rpc_port=9003,
        vxlan_openflow_port=None,
        vlan_openflow_port=None,
        k8s_config=Path("/var/contiv/config/contiv.json"),
        mtu=None,
        probe_interval=300,
        leak_grace=600,
        audit_interval=60,
    )


ALL = {
    "HOST": "h1",
    "VTEP_IP": "192.0.2.1",
    "CONTROL_IP": "192.0.2.2",
    "VLAN_UPLINKS": "eth1, ,eth10,",
    "VXLAN_PORT": "4790",
    "ETCD_ENDPOINTS": "http://e:1,http://e:2",
    "MODE": "Docker",
    "NET_MODE": "VLAN",
    "FORWARD_MODE": "Bridge",
    "RUN_DIR": "/r",
    "DATA_DIR": "/d",
    "OVSDB": "tcp:127.0.0.1:6640",
    "REST_ADDRESS": ":0",
    "VXLAN_RPC_PORT": "0",
    "VLAN_RPC_PORT": "1",
    "VXLAN_OPENFLOW_PORT": "2",
    "VLAN_OPENFLOW_PORT": "3",
    "K8S_CONFIG": "/k8s.json",
    "CLUSTER_DOMAIN": "Cluster.Example.",
    "DNS_ADDRESS": "10.96.0.2",
    "DNS_UPSTREAM": "192.0.2.53, 2001:db8::53",
    "DNS_RATE": "50",
    "MTU": "1400",
    "PROBE_INTERVAL": "6",
    "LEAK_GRACE": "4",
    "AUDIT_INTERVAL": "5",
    "DOCKER_PLUGIN_SOCKET": "/p/contiv.sock",
    "DOCKER_SOCKET": "/d.sock",
    "DOCKER_PLUGIN_NAME": "not in mode docker",
    "DOCKER_SCOPE": "global",
}
MEANT: dict[str, Any] = {
    "mode": "docker",
    "fwd_mode": FwdMode.BRIDGE,
    "store": StoreAddress(StoreKind.ETCD, ("e:1", "e:2"), secure=False),
    "host": "h1",
    "ctrl_ip": IPv4Address("192.0.2.2"),
    "vtep_ip": IPv4Address("192.0.2.1"),
    "uplinks": ("eth1", "eth10"),
    "vxlan_port": 4790,
    "journal": Path("/d/endpoints"),
    "run_dir": Path("/r"),
    "cni_socket": Path("/r/contiv-cni.sock"),
    "ovsdb": "tcp:127.0.0.1:6640",
    "rest": ListenAddress("0.0.0.0", 0),
    "vxlan_rpc_port": 0,
    "vlan_rpc_port": 1,
    "vxlan_openflow_port": 2,
    "vlan_openflow_port": 3,
    "k8s_config": None,
    "cluster_domain": "cluster.example",
    "dns_address": IPv4Address("10.96.0.2"),
    "dns_upstream": (IPv4Address("192.0.2.53"), IPv6Address("2001:db8::53")),
    "dns_rate": 50,
    "mtu": 1400,
    "probe_interval": 6,
    "leak_grace": 4,
    "audit_interval": 5,
    "docker": DockerSettings(
        plugin_socket=Path("/p/contiv.sock"),
        engine=Path("/d.sock"),
        scope=DockerScope.GLOBAL,
        driver="contiv",
        networks=Path("/d/docker-networks"),
        encap=Encap.VLAN,
    ),
}


def test_the_environment_stands_in_for_flags() -> None:
    environ = {f"CONTIV_NETPLUGIN_{name}": value for name, value in ALL.items()}
    assert settings_of([], environ) == AgentSettings(**MEANT)
    environ["CONTIV_NETPLUGIN_CNI_SOCKET"] = "/elsewhere.sock"
    assert settings_of([], environ).cni_socket == Path("/elsewhere.sock")


def test_every_flag_is_read_by_its_aliases() -> None:
    by_variable = {flag.env: flag.names[-1] for flag in FLAGS}
    arguments = [text for name, value in ALL.items() for text in ("-" + by_variable[name], value)]
    assert settings_of(arguments) == AgentSettings(**MEANT)


@pytest.mark.parametrize(
    ("flags", "vxlan", "vlan"),
    [
        ({}, None, None),
        ({"ovsdb": "unix:/o/db.sock"}, None, None),
        ({"ovsdb": "tcp:127.0.0.1:6640"}, 6633, 6634),
        ({"vxlan_openflow_port": "6633"}, 6633, None),
        ({"vlan_openflow_port": "0"}, None, 0),
    ],
)
def test_openflow_is_a_unix_socket_where_ovsdb_is_unless_a_port_is_named(
    flags: dict[str, str], vxlan: int | None, vlan: int | None
) -> None:
    found = resolved(**flags)
    assert (found.vxlan_openflow_port, found.vlan_openflow_port) == (vxlan, vlan)


def test_the_names_of_the_originals_flags_are_there() -> None:
    names = {name for flag in FLAGS for name in flag.names}
    assert names >= {
        "host",
        "host-label",
        "vtep-ip",
        "ctrl-ip",
        "vlan-uplinks",
        "vlan-if",
        "vxlan-port",
    }


def test_the_hosts_address_is_asked_for_only_where_it_is_needed() -> None:
    given = [f"--{name}={value}" for name, value in GOOD.items()]
    values = flags.read(
        "netplugin", FLAGS, [*given, "--ctrl-ip=192.0.2.1", "--vtep-ip=192.0.2.2"], {}, "1"
    )
    assert values is not None

    def no_address() -> str:
        raise UsageError("no address")

    assert resolve(values, no_address).ctrl_ip == IPv4Address("192.0.2.1")


def test_the_settings_of_docker() -> None:
    """In mode docker alone; the agent serves docker then, and CNI not."""
    assert resolved().docker is None
    docker = resolved(mode="docker").docker
    assert docker is not None
    assert (docker.driver, docker.scope) == ("netplugin", DockerScope.LOCAL)
    assert docker.plugin_socket == Path("/run/docker/plugins/netplugin.sock")
    assert docker.engine == Path("/var/run/docker.sock")
    assert "local or global" in refusal_of(mode="docker", docker_scope="swarm")


def test_the_settings_of_a_swarm() -> None:
    """A managed plugin connects to the agent, by a socket that legacy plugins are not found at."""
    docker = resolved(mode="swarm-mode", run_dir="/r").docker
    assert docker is not None
    assert (docker.driver, docker.scope) == ("netplugin", DockerScope.SWARM)
    assert docker.plugin_socket == Path("/r/docker-plugin.sock")
    vlan = {"netmode": "vlan", "fwdmode": "bridge", "vlan_uplinks": "eth1"}
    docker = resolved(mode="swarm-mode", docker_plugin_name="contiv/v2:1", **vlan).docker
    assert docker is not None
    assert (docker.driver, docker.encap) == ("contiv/v2:1", "vlan")


def test_kubernetes_has_its_own_configuration() -> None:
    assert resolved(k8s_config="/k.json").k8s_config == Path("/k.json")
    assert resolved(k8s_config="/k.json", mode="docker").k8s_config is None


def test_consul_may_be_named() -> None:
    assert resolved(consul="http://c:8500").store.kind is StoreKind.CONSUL


def test_a_site_names_the_management_ports_that_pods_may_reach() -> None:
    assert (resolved().pod_guard, resolved().pod_host_ports) == (True, frozenset())
    opened = resolved(pod_host_ports="8500, udp/8600,tcp/53").pod_host_ports
    assert opened == {
        *(ManagementPort(6, 8500), ManagementPort(17, 8500)),
        *(ManagementPort(17, 8600), ManagementPort(6, 53)),
    }
    assert not resolved(no_pod_guard="true").pod_guard
    for wrong in ("x", "0", "65536", "sctp/1", "tcp/", "/80", "1-2"):
        assert wrong in refusal_of(pod_host_ports=f"80,{wrong}")


def test_inspection_is_served_on_the_control_address_unless_said_otherwise() -> None:
    """The finding of docs/notes/trust.md §2."""
    assert resolved(ctrl_ip="192.0.2.8").rest == ListenAddress("192.0.2.8", 9090)
    assert resolved(rest_address=":9090").rest == ListenAddress("0.0.0.0", 9090)


def test_metrics_name_pods_as_asked() -> None:
    assert resolved().named_pods == 100
    assert resolved(pod_metrics_top="7").named_pods == 7
    assert resolved(pod_metrics="all", pod_metrics_top="7").named_pods == MOST_NAMED_PODS
    assert resolved(pod_metrics="off").named_pods is None
    assert refusal_of(pod_metrics="some") == "pod-metrics must be top, all or off, got some"
    assert "pod-metrics-top" in refusal_of(pod_metrics_top="0")


def test_records_of_flows_are_exported_where_each_word_says() -> None:
    words = "file:/var/log/f.jsonl, unix:/run/f.sock,ipfix:192.0.2.9:4739,ipfix:[fd77::9]:2055,"
    found = resolved(flow_records="true", flow_export=words).flow_export
    assert [(str(one.kind), one.where, one.port) for one in found] == [
        ("file", "/var/log/f.jsonl", 0),
        ("unix", "/run/f.sock", 0),
        ("ipfix", "192.0.2.9", 4739),
        ("ipfix", "fd77::9", 2055),
    ]
    assert "needs --flow-records" in refusal_of(flow_export="file:/f")
    for wrong in (
        *("x", "file:", "file:f", "unix:", "tcp:/f", "ipfix:192.0.2.9", "ipfix:192.0.2.9:0"),
        *("ipfix:host:4739", "ipfix::4739", "ipfix:192.0.2.9:65536"),
    ):
        assert wrong in refusal_of(flow_records="true", flow_export=wrong) or "collector" in (
            refusal_of(flow_records="true", flow_export=wrong)
        )
