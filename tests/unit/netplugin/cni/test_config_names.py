"""Members of a configuration are found as Go's decoder finds them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contivk8s import main
from netplugin.cni.config_names import declared


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({}, {}),
        ({"NAME": "a", "type": "contivk8s", "colour": "red"}, {"name": "a"}),
        ({"Contiv": {"Tenant": "t", "nEtWoRk": "n"}}, {"contiv": {"tenant": "t", "network": "n"}}),
        (
            {"RuntimeConfig": {"PortMappings": [{"HOSTPORT": 1, "x": 2}, {"hostIp": "::1"}]}},
            {"runtimeConfig": {"portMappings": [{"hostPort": 1}, {"hostIP": "::1"}]}},
        ),
        (
            {"CNI.dev/Valid-Attachments": [{"ContainerID": "c", "IfName": "eth0"}]},
            {"cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth0"}]},
        ),
        (
            {"PrevResult": {"IPs": [{"Address": "10.1.1.5/24", "Interface": 1}]}},
            {"prevResult": {"ips": [{"address": "10.1.1.5/24", "interface": 1}]}},
        ),
        ({"args": {"CNI": {"Ips": ["10.1.1.5"]}}}, {"args": {"cni": {"ips": ["10.1.1.5"]}}}),
        # the last one counts, and libcni sorts the exact name behind the others
        ({"NAME": "a", "Name": "b", "name": "c"}, {"name": "c"}),
        ({"name": "a", "NAME": "b"}, {"name": "b"}),
        # null is no value, but a list that is null is not a missing one
        ({"name": "a", "NAME": None}, {"name": "a"}),
        ({"cni.dev/attachments": None}, {"cni.dev/attachments": None}),
        # the two letters beside ASCII that Go folds, and one that it does not
        ({"cniVer\u017fion": "1.0.0"}, {"cniVersion": "1.0.0"}),
        ({"contiv": {"networ\u212a": "n"}}, {"contiv": {"network": "n"}}),
        ({"runtimeConfig": {"\uff49ps": []}}, {"runtimeConfig": {}}),
        # what has another shape is left to the parsers, which refuse it
        ({"contiv": 3, "dns": [{"Search": []}]}, {"contiv": 3, "dns": [{"Search": []}]}),
        (
            {"runtimeConfig": {"portMappings": {"HostPort": 1}, "bandwidth": None}},
            {"runtimeConfig": {"portMappings": {"HostPort": 1}, "bandwidth": None}},
        ),
    ],
)
def test_members(config: dict[str, Any], found: dict[str, Any]) -> None:
    assert declared(config) == found


@given(st.text(st.characters(codec="ascii"), max_size=12))
def test_ascii_folds_as_it_is_written_small(name: str) -> None:
    assert main.folded(name) == name.lower()


@pytest.mark.parametrize(
    ("config", "version", "socket"),
    [
        ({"CNIVersion": "1.0.0", "Contiv": {"Socket": "/a"}}, "1.0.0", "/a"),
        ({"cniVersion": None, "contiv": {"socket": "/a", "SOCKET": None}}, "0.3.1", "/a"),
        ({"CniVersion": "0.4.0", "cniVersion": "1.1.0"}, "1.1.0", main.SOCKET),
    ],
)
def test_the_plugin_finds_them_as_the_agent_does(
    config: dict[str, Any], version: str, socket: str
) -> None:
    parsed = main.configuration(json.dumps(config).encode())
    assert (main.member(parsed, "cniVersion") or main.DEFAULT_VERSION) == version
    assert (declared(config).get("cniVersion") or main.DEFAULT_VERSION) == version
    assert main.socket_path(parsed, {}) == socket
