"""An agent that stops itself (SIGSTOP) in the midst of an ADD, for a test to kill it there.

Run as a program, with the flags of netplugin. It configures the namespace of the first pod that it
adds by half, interface and loopback up but without an address, and then waits for its end.
"""

import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

from netplugin.kernel.links import pod_links
from netplugin.kernel.netlink import requests as netlink
from netplugin.main import main

LINKS_UP = 2
"""How many requests of a pod's configuration come before its addresses."""


def halt_in_configurations() -> None:
    """Let the configuration of a namespace stop this process after its first requests."""
    configure, change = pod_links.configure, netlink.change
    configuring = set[threading.Thread]()

    def change_until_halfway(*requests: bytes, **options: Any) -> None:
        if threading.current_thread() not in configuring:
            change(*requests, **options)
            return
        change(*requests[:LINKS_UP])
        os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait()  # for the signal, which any thread may take

    def configure_by_half(*words: Any) -> None:
        configuring.add(threading.current_thread())
        configure(*words)

    setattr(netlink, "change", change_until_halfway)  # noqa: B010 - with other types
    setattr(pod_links, "configure", configure_by_half)  # noqa: B010 - with other types


def command(agent: Sequence[str], python: str) -> list[str]:
    """Return the command line of such an agent, made of that of an agent."""
    return [python, "-m", __name__, *agent[1:]]


if __name__ == "__main__":
    halt_in_configurations()
    main()
