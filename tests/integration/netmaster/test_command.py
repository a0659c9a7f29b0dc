"""The command itself: exit codes and texts, taken ports, a store that refuses."""

import os
import socket
import subprocess

import pytest

from tests.bed.master import MODES, PROGRAM
from tests.bed.waiting import WITHIN


def run(*arguments: str, **environ: str) -> tuple[int, str, str]:
    """Run netmaster to its end."""
    done = subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "netmaster mode is not set\n"),
        (["-mode", "docker", "--netmode=vlan"], "netmaster forwarding mode is not set\n"),
        ([*MODES, "--log-level", "xx"], 'not a valid logrus Level: "xx"\n'),
    ],
)
def test_a_wrong_flag_ends_it_with_22(arguments: list[str], text: str) -> None:
    assert run(*arguments) == (22, "", text)


def test_an_unknown_flag_ends_it_with_22() -> None:
    code, out, err = run("--bogus")
    assert (code, out) == (22, "")
    assert err.startswith("Incorrect Usage. ")
    assert "--bogus" in err


def test_the_version_block_is_printed() -> None:
    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert out.startswith("netmaster version \nVersion: ")


def test_help_names_every_flag_and_variable() -> None:
    code, out, _ = run("-help")
    assert code == 0
    for name in (
        "plugin-mode",
        "network-mode",
        "forward-mode",
        "etcd-endpoints",
        "listen-url",
        "control-url",
        "infra-type",
        "ofnet-port",
        "lease-ttl",
    ):
        assert f"--{name}" in out
    assert "CONTIV_NETMASTER_INTERNAL_ADDRESS" in out


def test_a_taken_port_ends_it_with_1() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = run(
            *MODES, "--external-address", address, "--internal-address", address, "--ofnet-port=0"
        )
    assert code == 1
    assert "address already in use" in err
