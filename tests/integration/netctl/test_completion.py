"""Words completed by a real bash, and by what zsh and fish ask; nothing keeps a shell waiting."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netctl.completion import PATIENCE
from tests.integration.netctl.proxy import Proxy, serving

PROGRAMS = Path(sys.executable).parent


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


def environment(url: str, home: Path) -> dict[str, str]:
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return {"NETMASTER": url, "HOME": str(home), "PATH": path}


def bash(words: list[str], url: str, home: Path) -> list[str]:
    """Return what bash offers for the last of the words, as it takes them apart."""
    script = (
        'eval "$(netctl completion bash)"; '
        f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_netctl_completion netctl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment(url, home),
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_commands_flags_and_names(master: Proxy, tmp_path: Path) -> None:
    assert bash(["netctl", "net", "cr"], master.url, tmp_path) == ["create"]
    assert bash(["netctl", "net", "ls", "--q"], master.url, tmp_path) == ["--quiet"]
    assert bash(["netctl", "net", "rm", ""], master.url, tmp_path) == ["n1", "n2"]
    assert bash(["netctl", "net", "rm", "-t", "blue", ""], master.url, tmp_path) == ["n3"]


def test_bash_takes_flags_apart_at_their_signs(master: Proxy, tmp_path: Path) -> None:
    host, port = master.url.removeprefix("http:").rsplit(":", 1)
    words = ["netctl", "--netmaster", "=", "http", ":", host, ":", port, "net", "rm", "n"]
    assert bash(words, "http://127.0.0.1:1", tmp_path) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("shell", "current", "shown"),
    [
        ("zsh", "2", "plain\ninspect\nInspect a Network\n"),
        ("fish", "insp", "plain,inspect\tInspect a Network\n"),
    ],
)
def test_the_forms_of_other_shells(
    shell: str, current: str, shown: str, master: Proxy, tmp_path: Path
) -> None:
    done = subprocess.run(
        ["netctl"],
        env={
            **environment(master.url, tmp_path),
            "_NETCTL_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": "netctl net insp",
            "COMP_CWORD": current,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == shown


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1", "nonsense"])
def test_without_a_netmaster_there_are_no_names(url: str, tmp_path: Path) -> None:
    assert bash(["netctl", "net", "rm", ""], url, tmp_path) == []


def test_a_silent_netmaster_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert bash(["netctl", "net", "rm", ""], url, tmp_path) == []
        assert time.monotonic() - begun < PATIENCE + 5
