"""BGP costs an agent nothing when it starts: most hosts speak with nobody."""

import subprocess
import sys


def test_an_agent_does_not_load_what_only_a_session_needs() -> None:
    loaded = "import sys, netplugin.daemon; print('ofnet.bgp.speaker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True)
    assert done.stdout == b"False\n"
