"""What a command of netctl imports, and how it ends, as a process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

UNREACHABLE = "http://127.0.0.1:1"


def imported(*words: str) -> set[str]:
    """Return the modules that a command line has imported at its end."""
    code = "import sys; from netctl.main import run; run(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
    return set(done.stdout.decode().splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["-v"], ["network", "--help"]])
def test_what_needs_no_netmaster_imports_no_network(words: list[str]) -> None:
    network = {"socket", "contivmodel.client_sync", "netctl.commands.objects.tenant"}
    assert not imported(*words) & network


def test_a_command_imports_no_other_command() -> None:
    found = imported("--netmaster", UNREACHABLE, "network", "ls")
    assert {"netctl.commands.objects.network", "contivmodel.client_sync"} <= found
    # Each of these takes longer to import than all of netctl.
    slow = {"http.client", "email", "ssl", "asyncio", "aiohttp", "pydantic"}
    assert not found & {*slow, "netctl.commands.objects.group", "netctl.completion"}


def ended(stdout: int | IO[bytes]) -> tuple[int, str]:
    """Return the exit code and the errors of a command whose output goes somewhere."""
    words = [sys.executable, "-c", "from netctl.main import main; main(['--help'])"]
    done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr.decode().partition("msg=")[2]


def test_a_full_device_is_named() -> None:
    with Path("/dev/full").open("wb") as full:
        assert ended(full) == (4, '"cannot write the output: no space left on device" \n')


def test_a_reader_that_has_gone_is_no_error_to_tell() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        assert ended(gone) == (1, "")
