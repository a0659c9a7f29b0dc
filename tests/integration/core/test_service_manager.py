"""A socket that the service manager passed, in a process of its own."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.bed.waiting import WITHIN

PASSED = """
import os, sys
from pathlib import Path
from core.service_manager import passed_socket
from core.net.unix_socket import listen
environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.environ.update(environ)
path = Path(sys.argv[1])
found = passed_socket(path)
assert found is not None and found.getsockname() == str(path)
assert passed_socket(path.with_name("other")) is None
taken = listen(path, "CNI")
connection, _ = taken.accept()
connection.sendall(b"served")
"""


def test_a_call_waits_in_the_passed_socket_until_the_daemon_is_there(tmp_path: Path) -> None:
    path = tmp_path / "cni.sock"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(path))
        listening.listen()
        client.connect(str(path))  # before anybody accepts
        client.settimeout(WITHIN)
        with subprocess.Popen(
            [sys.executable, "-c", PASSED, str(path)],
            preexec_fn=lambda: os.dup2(listening.fileno(), 3),  # noqa: PLW1509 - no threads here
            pass_fds=(3,),
        ) as daemon:
            assert client.recv(100) == b"served"
            assert daemon.wait(WITHIN) == 0
    assert path.exists(), "it is the manager's to remove"
