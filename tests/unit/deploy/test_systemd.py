"""The units: systemd accepts them, they are confined, and settings are those of the daemons."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from contivk8s.main import SOCKET
from daemons import flags
from netmaster import settings as of_master
from netplugin import settings as of_agent
from netplugin.settings import PLUGIN_SOCKET, cni_socket

ROOT: Final = Path(__file__).parents[3]
UNITS: Final = ROOT / "deploy" / "systemd"
DEFAULTS: Final = ROOT / "deploy" / "default"
EXAMPLES: Final = sorted((ROOT / "deploy" / "examples").iterdir())
DAEMONS: Final = {"netmaster": of_master, "netplugin": of_agent}


def lines(unit: str, name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    return re.findall(rf"^{name}=-?(.*)$", (UNITS / unit).read_text(), re.MULTILINE)


def test_a_user_that_no_file_knows_has_a_home() -> None:
    assert lines("netmaster.service", "DynamicUser") == ["yes"]
    assert lines("netmaster.service", "Environment") == ["HOME=/nonexistent"]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_service_tells_when_it_is_ready_and_is_watched(daemon: str) -> None:
    unit = f"{daemon}.service"
    assert lines(unit, "Type") == ["notify"]
    assert lines(unit, "WatchdogSec") == ["60"]
    assert lines(unit, "Restart") == ["always"]
    assert lines(unit, "EnvironmentFile") == [f"/etc/default/{daemon}"]
    assert lines(unit, "ExecStart") == [f"/usr/bin/{daemon}"]


def test_the_socket_is_where_the_agent_and_the_plugin_look_for_it() -> None:
    values = flags.read("netplugin", of_agent.FLAGS, [], {}, "1")
    assert values is not None
    assert lines("netplugin.socket", "ListenStream") == [str(cni_socket(values))]
    assert str(cni_socket(values)) == SOCKET


def test_the_door_for_docker_is_where_docker_looks_for_the_driver() -> None:
    unit = "netplugin-docker.socket"
    assert lines(unit, "ListenStream") == [PLUGIN_SOCKET]
    assert lines(unit, "Service") == ["netplugin.service"]
    assert lines(unit, "Before") == ["docker.service"]


def variables(path: Path) -> Mapping[str, str]:
    """Return the variables of a file as systemd reads it."""
    text = path.read_text()
    found = re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)
    left = [one for one in text.splitlines() if one and not one.startswith("#") and "=" not in one]
    assert left == []
    assert len(dict(found)) == len(found), "a variable is set twice"
    return dict(found)


def check(daemon: str, path: Path) -> None:
    """See that the daemon takes a file's settings, and knows all variables, commented ones too."""
    module, environ = DAEMONS[daemon], variables(path)
    known = {f"CONTIV_{daemon.upper()}_{flag.env}" for flag in module.FLAGS}
    named = set(re.findall(rf"\bCONTIV_{daemon.upper()}_\w+(?==)", path.read_text()))
    assert named <= known
    values = flags.read(daemon, module.FLAGS, [], environ, "1")
    assert values is not None
    settings = module.resolve(values, lambda: "10.0.0.11")
    assert environ[f"CONTIV_{daemon.upper()}_MODE"] == settings.mode


@pytest.mark.parametrize("daemon", DAEMONS)
def test_the_settings_of_a_new_installation_are_understood(daemon: str) -> None:
    check(daemon, DEFAULTS / daemon)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_what_its_name_says(example: Path) -> None:
    store, net_mode, orchestrator = example.name.split("-")
    for daemon in DAEMONS:
        check(daemon, example / daemon)
        environ = variables(example / daemon)
        prefix = f"CONTIV_{daemon.upper()}_"
        assert environ[f"{prefix}MODE"] == orchestrator
        assert environ[f"{prefix}NET_MODE"] == net_mode
        assert f"{prefix}{store.upper()}_ENDPOINTS" in environ


def test_there_is_an_example_of_each_kind() -> None:
    assert {path.name for path in EXAMPLES} == {
        f"{store}-{net_mode}-{orchestrator}"
        for store in ("etcd", "consul")
        for net_mode in ("vlan", "vxlan")
        for orchestrator in ("kubernetes", "docker")
    }
