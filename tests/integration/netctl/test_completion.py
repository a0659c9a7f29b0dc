"""Words completed by a real bash, zsh and fish; nothing keeps a shell waiting or disturbs it."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.netctl import shells
from tests.integration.netctl.proxy import Proxy, serving
from tests.integration.netctl.shells import Offer

Shell = Callable[[str, str, Path], Offer]

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def master() -> Iterator[Proxy]:
    master = Proxy(
        objects=[
            {"tenantName": "default", "networkName": "n1"},
            {"tenantName": "default", "networkName": "n2"},
            {"tenantName": "blue", "networkName": "n3"},
        ]
    )
    with serving(master):
        yield master


@pytest.fixture(params=[shells.bash, shells.zsh, shells.fish], ids=lambda shell: shell.__name__)
def shell(request: pytest.FixtureRequest) -> Shell:
    chosen: Shell = request.param
    return chosen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("netctl ne", ["netprofile", "network"]),
        ("netctl net ", ["create", "inspect", "ls", "rm", "set"]),
        ("netctl net cr", ["create"]),
        ("netctl net create n1 --sub", ["--subnet", "--subnetv6"]),
        ("netctl net create --encap v", ["vlan", "vxlan"]),
        ("netctl net create --encap=vx", ["--encap=vxlan"]),
        ("netctl net create --encap=", ["--encap=vlan", "--encap=vxlan"]),
        ("netctl policy rule-add -d ", ["in", "out"]),
        ("netctl net bogus ", []),
    ],
)
def test_commands_flags_and_values(
    line: str, expected: list[str], shell: Shell, tmp_path: Path
) -> None:
    assert offered(shell, line, NOBODY, tmp_path) == expected


def test_names(shell: Shell, master: Proxy, tmp_path: Path) -> None:
    assert offered(shell, "netctl net rm ", master.url, tmp_path) == ["n1", "n2"]
    assert offered(shell, "netctl net rm -t blue ", master.url, tmp_path) == ["n3"]
    named = f"netctl --netmaster={master.url} net rm n"
    assert offered(shell, named, NOBODY, tmp_path) == ["n1", "n2"]


@pytest.mark.parametrize("shell", [shells.bash, shells.zsh], ids=["bash", "zsh"])
def test_tab_completes_the_word(shell: Callable[..., Offer], tmp_path: Path) -> None:
    assert shell("netctl net ins", NOBODY, tmp_path, key=b"\t").words == ["inspect"]


@pytest.mark.parametrize("url", [NOBODY, "https://127.0.0.1:1", "nonsense"])
def test_without_a_netmaster_nothing_is_shown(url: str, shell: Shell, tmp_path: Path) -> None:
    line = "netctl net rm "
    offer = shell(line, url, tmp_path)
    assert offer.words == []
    _, _, shown = offer.shown.partition(shells.PROMPT)
    # a bell, and the same line again where the shell has run the key that tells it
    assert {part.strip("\a\r\n") for part in shown.split(shells.PROMPT)} <= {line, ""}


def test_a_silent_netmaster_is_not_waited_for(shell: Shell, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert shell("netctl net rm ", url, tmp_path).words == []


def offered(shell: Shell, line: str, url: str, home: Path) -> list[str]:
    """Return what a shell offers for the last word of a line, with the flag that bash keeps."""
    words = sorted(shell(line, url, home).words)
    flag, equals, _ = line.rpartition(" ")[2].partition("=")
    if not equals:
        return words
    return [word if word.startswith("-") else f"{flag}={word}" for word in words]
