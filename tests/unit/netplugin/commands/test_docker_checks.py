"""Which engine asks for names where no agent hears it."""

from ipaddress import ip_address

import pytest

from core.errors import HostError
from netplugin.commands.docker_checks import found
from netplugin.commands.findings import Note


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "26.1.5", "dev"])
def test_older_engines_ask_from_the_container(version: str) -> None:
    assert isinstance(found(version, ""), str)


@pytest.mark.parametrize(
    "settings", ["", "{}", '{"dns": []}', '{"dns": "10.0.0.53"}', "[]", '{"dns-search": ["a"]}']
)
def test_newer_ones_ask_from_the_host(settings: str) -> None:
    one = found("28.5.2", settings)
    assert isinstance(one, Note)
    assert "names of containers on other hosts do not resolve" in one.found


def test_unless_servers_are_named_for_docker() -> None:
    one = found("28.5.2", '{"dns": ["10.0.0.53", "10.0.0.54"]}')
    assert one == "Docker 28.5.2 asks 10.0.0.53, 10.0.0.54 for names from the container"


@pytest.mark.parametrize("settings", ["{", "[" * 100_000])
def test_settings_that_cannot_be_read_are_a_fault(settings: str) -> None:
    with pytest.raises(HostError, match="is not JSON"):
        found("28.5.2", settings)


@pytest.mark.parametrize(
    ("version", "servers", "hidden"),
    [
        ("26.1.5", ["127.0.0.1"], True),
        ("26.1.5", ["10.0.0.53", "::1"], True),
        ("26.1.5", ["10.0.0.53"], False),
        ("20.10.24", ["127.0.0.1"], False),
    ],
)
def test_a_server_at_a_loopback_address_is_asked_from_the_host_earlier(
    version: str, servers: list[str], hidden: bool
) -> None:
    of_host = [ip_address(one) for one in servers]
    assert isinstance(found(version, "", of_host), Note) == hidden
    assert isinstance(found(version, '{"dns": ["10.0.0.53"]}', of_host), str)
