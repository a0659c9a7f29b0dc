"""The file that says how Kubernetes is reached."""

import json
import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from core.errors import UsageError
from netplugin.kube.config import KubeConfig, load


def written(path: Path, **values: str) -> Path:
    path.write_text(json.dumps(values))
    return path


def config(**values: str) -> KubeConfig:
    return KubeConfig.model_validate({"K8S_API_SERVER": "http://192.0.2.1:8080", **values})


def test_the_originals_file_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path / "contiv.json",
        K8S_API_SERVER="https://10.96.0.1:443",
        K8S_CA="/ca.crt",
        K8S_KEY="",
        K8S_CERT="",
        K8S_TOKEN="secret",
        SVC_SUBNET="10.96.0.0/12",
    )
    found = load(file)
    assert found.servers == ("https://10.96.0.1:443",)
    assert (found.ca, found.token) == ("/ca.crt", "secret")
    assert found.services == IPv4Network("10.96.0.0/12")


def test_without_the_file_there_is_no_kubernetes(tmp_path: Path) -> None:
    found = load(tmp_path / "contiv.json")
    assert (found.servers, found.services) == ((), None)


@pytest.mark.parametrize(
    ("named", "servers"),
    [
        ("", ()),
        ("http://a:1/", ("http://a:1",)),
        ("https://a:1,https://b:1", ("https://a:1", "https://b:1")),
        (" https://a , https://[fd00::1]:6443/ ,", ("https://a", "https://[fd00::1]:6443")),
    ],
)
def test_several_servers_may_be_named(named: str, servers: tuple[str, ...]) -> None:
    assert config(K8S_API_SERVER=named).servers == servers


@pytest.mark.parametrize(
    ("text", "subnet"),
    [
        ('{"SVC_SUBNET": "10.96.0.1/12"}', "10.96.0.0/12"),
        ("{}", "10.254.0.0/16"),
        ('{"SVC_SUBNET": null}', "10.254.0.0/16"),
        ('{"SVC_SUBNET": ""}', None),
    ],
)
def test_the_subnet_is_named_or_the_default(tmp_path: Path, text: str, subnet: str | None) -> None:
    file = tmp_path / "contiv.json"
    file.write_text(text)
    assert load(file).services == (subnet and IPv4Network(subnet))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "1", "null", "[" * 100_000, '{"K8S_TOKEN": "\\ud800"}'),
        *('{"SVC_SUBNET": true}', '{"SVC_SUBNET": 1}'),
        '{"K8S_API_SERVER": "10.96.0.1"}',
        '{"K8S_API_SERVER": "https://a,b"}',
        '{"K8S_API_SERVER": 1}',
        '{"SVC_SUBNET": "10.96"}',
        '{"SVC_SUBNET": "fd00::/64"}',
        '{"SVC_SUBNET": {"a": 1}}',
    ],
)
def test_what_cannot_be_read_is_a_wrong_start(tmp_path: Path, text: str) -> None:
    file = tmp_path / "contiv.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"Kubernetes configuration .*contiv\.json: "):
        load(file)
    with pytest.raises(UsageError, match="Kubernetes configuration"):
        load(tmp_path)


def test_a_node_is_named_or_has_its_hosts_name() -> None:
    assert config(K8S_NODE_NAME="n1").node_name({"NODE_NAME": "n2"}) == "n1"
    assert config().node_name({"NODE_NAME": "n2"}) == "n2"
    assert config().node_name({}) == socket.gethostname().lower()
