"""`contivk8s.netcontiv` as a module: environment, labels, log."""

import json
import logging
from pathlib import Path

import pytest

from contivk8s import netcontiv

ENV = {
    "CNI_COMMAND": "add",
    "CNI_IFNAME": "eth0",
    "CNI_NETNS": "/nonexistent/ns",
    "CNI_CONTAINERID": "c1-2",
    "CONTIV_MESOS_SOCKET": "/nonexistent/mesos.sock",
}


@pytest.mark.parametrize("name", netcontiv.REQUIRED)
def test_without_a_variable_it_ends_with_1_and_says_nothing(name: str) -> None:
    assert netcontiv.answer({**ENV, name: ""}) == (1, "")


@pytest.mark.parametrize("verb", ["CHECK", "VERSION", "x"])
def test_other_commands_are_refused(verb: str) -> None:
    assert netcontiv.answer({**ENV, "CNI_COMMAND": verb}) == (1, "")


@pytest.mark.parametrize(("verb", "command"), [("add", "ADD"), ("Del", "DEL")])
def test_commands_have_any_case(verb: str, command: str) -> None:
    assert netcontiv.command_of({**ENV, "CNI_COMMAND": verb}) == command


def test_no_agent_is_an_error() -> None:
    code, text = netcontiv.answer(ENV)
    error = json.loads(text)
    assert (code, error["code"], error["cniVersion"]) == (2, 2, "0.2")
    assert error["msg"].startswith("contiv: failed to get response from netplugin :/nonexistent/")


def written(folder: Path, config: object) -> str:
    """Write what Mesos' isolator writes; return the path of the namespace beside it."""
    source = folder / "netcontiv" / "network.conf"
    source.parent.mkdir(exist_ok=True)
    source.write_text(config if isinstance(config, str) else json.dumps(config))
    return str(folder / "ns")


def labelled(*labels: object) -> object:
    return {"args": {"org.apache.mesos": {"network_info": {"labels": {"labels": list(labels)}}}}}


def test_labels_are_those_of_the_isolators_file(tmp_path: Path) -> None:
    config = labelled(
        {"key": "io.contiv.tenant", "value": "t1"},
        {"key": "io.contiv.net-group", "value": "g1"},
        {"key": "other", "value": "x"},
    )
    netns = written(tmp_path, config)
    assert netcontiv.labels_of(netns) == {"io.contiv.tenant": "t1", "io.contiv.net-group": "g1"}
    sent = json.loads(netcontiv.request_of({**ENV, "CNI_NETNS": netns}))
    assert sent["labels"] == {"io.contiv.tenant": "t1", "io.contiv.net-group": "g1"}


@pytest.mark.parametrize(
    "config", ["{", "[]", {}, {"args": 1}, labelled("x"), labelled({"key": "io.contiv.tenant"})]
)
def test_a_file_that_makes_no_sense_has_no_labels(config: object, tmp_path: Path) -> None:
    assert netcontiv.labels_of(written(tmp_path, config)) == {}


def test_a_long_log_is_kept_aside(tmp_path: Path) -> None:
    log = tmp_path / "netcontiv.log"
    with log.open("wb") as file:
        file.truncate(netcontiv.LARGEST_LOG)
    netcontiv.log_file(log).close()
    assert (tmp_path / "netcontiv.log.old").stat().st_size == netcontiv.LARGEST_LOG
    assert log.stat().st_size == 0


def test_a_log_that_cannot_be_opened_ends_no_call(tmp_path: Path) -> None:
    assert isinstance(netcontiv.log_file(tmp_path / "no" / "log"), logging.NullHandler)
