"""`netmaster default-network`, with a netctl that fails as long as no master leads."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from netmaster.commands import default_network

SETTINGS = {
    "CONTIV_NETMASTER_NET_MODE": "vxlan",
    "POD_SUBNET": "10.20.0.0/16",
    "POD_GATEWAY": "10.20.255.254",
}
NETCTL = """\
#!/bin/sh
echo "$@" >>{log}
{body}
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "log"


def netctl(log: Path, body: str) -> None:
    program = log.with_name("netctl")
    program.write_text(NETCTL.format(log=log, body=body))
    program.chmod(0o755)


def run_until(made: Path) -> int:
    """Run the command, and end it by a signal when the file is there."""

    def end() -> None:
        until = time.monotonic() + 10
        while not made.exists() and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    ender = threading.Thread(target=end)
    ender.start()
    try:
        return default_network.run(["--made", str(made)], 0.01)
    finally:
        ender.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_it_tries_until_a_master_makes_the_network(log: Path, tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    netctl(
        log, f"case $2 in create) [ -e {tried} ] || {{ touch {tried}; exit 1; }};; *) exit 3;; esac"
    )
    assert run_until(tmp_path / "made") == 0
    words = log.read_text().splitlines()
    assert [line.split()[1] for line in words] == ["inspect", "create"] * 2
    assert (tmp_path / "made").exists()


def test_a_network_that_is_there_is_left_as_it_is(log: Path, tmp_path: Path) -> None:
    netctl(log, "exit 0")
    assert run_until(tmp_path / "made") == 0
    assert log.read_text() == "network inspect -t default default-net\n"


def test_an_image_without_netctl_is_said(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not log.exists()
    assert default_network.run(["--made", str(tmp_path / "made")]) == 1
    assert "netctl is not installed" in capsys.readouterr().err
