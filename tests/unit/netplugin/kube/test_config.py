"""The file that says how Kubernetes is reached."""

import json
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from core.errors import OrchestratorUnavailable, UsageError
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
    assert (found.server, found.ca, found.token) == ("https://10.96.0.1:443", "/ca.crt", "secret")
    assert found.services == IPv4Network("10.96.0.0/12")


def test_without_the_file_there_is_no_kubernetes(tmp_path: Path) -> None:
    found = load(tmp_path / "contiv.json")
    assert (found.server, found.services) == ("", None)


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
        *("", "{", "[1]", "1", "null"),
        '{"K8S_API_SERVER": "10.96.0.1"}',
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


def test_a_token_of_ones_own_is_shown_else_the_accounts_as_it_is_now(tmp_path: Path) -> None:
    account = tmp_path / "token"
    account.write_text("first\n")
    assert config(K8S_TOKEN=" own ").bearer(account) == "own"
    assert config(K8S_CERT="/c", K8S_KEY="/k").bearer(account) == ""
    assert config().bearer(account) == "first"
    account.write_text("second\n")
    assert config().bearer(account) == "second"
    account.unlink()
    with pytest.raises(OrchestratorUnavailable, match="token"):
        config().bearer(account)


def test_without_tls_there_are_no_certificates() -> None:
    assert config().tls() is None


@pytest.mark.parametrize("authority", ["", "/nowhere", __file__])
def test_over_tls_an_authority_must_be_there(authority: str) -> None:
    with pytest.raises(UsageError, match="certificates"):
        config(K8S_API_SERVER="https://192.0.2.1", K8S_CA=authority).tls()
