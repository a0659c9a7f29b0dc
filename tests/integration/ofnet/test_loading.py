"""What an agent that starts does not wait for: loading what it may not need."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "ofnet.bgp.speaker",  # most hosts have no BGP peer
        "os_ken",  # no packet has come up yet
    ],
)
def test_an_agent_that_starts_does_not_load(module: str) -> None:
    loaded = f"import sys, netplugin.startup.daemon; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_the_library_of_packets_is_loaded_when_asked_for() -> None:
    load = "from ofnet.openflow import packets; packets.load()"
    script = f"import sys; {load}; print('os_ken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"True\n"
