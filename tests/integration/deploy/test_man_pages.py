"""The man pages: groff accepts them, and they have every flag and command."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest

from daemons.flags import Flag
from netctl.main import cli
from netmaster import settings as of_master
from netplugin import settings as of_agent

ROOT: Final = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "scripts/man-pages", directory], check=True)
    return directory


def shown(page: Path) -> str:
    """Return a page as a reader sees it; fails for what groff warns of."""
    command = ["man", "--warnings", "--encoding=utf8", "--local-file", str(page)]
    environ = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "200", "MANPAGER": "cat"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert done.stderr == ""
    return subprocess.run(
        ["col", "-bx"], input=done.stdout, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("daemon", "flags"), [("netmaster", of_master.FLAGS), ("netplugin", of_agent.FLAGS)]
)
def test_a_daemons_page_has_all_flags_and_their_variables(
    pages: Path, daemon: str, flags: tuple[Flag, ...]
) -> None:
    text = shown(pages / "man8" / f"{daemon}.8")
    for flag in flags:
        assert all(f"--{name}" in text for name in flag.names)
        assert f"Variable: CONTIV_{daemon.upper()}_{flag.env}\n" in text


def test_the_page_of_netctl_has_all_commands(pages: Path) -> None:
    text = shown(pages / "man1" / "netctl.1")
    for name in cli.list_commands(click.Context(cli)):
        assert f"netctl {name}" in text
    assert "netctl policy rule-add" in text
