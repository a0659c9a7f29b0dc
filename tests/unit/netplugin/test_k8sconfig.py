"""What the Kubernetes configuration says of services."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from core.errors import UsageError
from netplugin.k8sconfig import service_subnet


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "contiv.json"


@pytest.mark.parametrize(
    ("text", "subnet"),
    [
        ('{"K8S_API_SERVER": "https://h:6443", "SVC_SUBNET": "10.96.0.0/12"}', "10.96.0.0/12"),
        ('{"SVC_SUBNET": "10.96.0.1/12"}', "10.96.0.0/12"),
        ("{}", "10.254.0.0/16"),
        ('{"SVC_SUBNET": null}', "10.254.0.0/16"),
    ],
)
def test_the_subnet_is_named_or_the_default(file: Path, text: str, subnet: str) -> None:
    file.write_text(text)
    assert service_subnet(file) == IPv4Network(subnet)


def test_without_a_file_or_a_subnet_there_are_no_services(file: Path) -> None:
    assert service_subnet(file) is None
    file.write_text('{"SVC_SUBNET": ""}')
    assert service_subnet(file) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"SVC_SUBNET": "10.96"}', '{"SVC_SUBNET": "fd00::/64"}']
)
def test_a_file_that_says_something_else_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=r"Kubernetes configuration .*contiv\.json: "):
        service_subnet(file)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Kubernetes configuration"):
        service_subnet(tmp_path)
