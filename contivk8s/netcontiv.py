#!/usr/bin/python3 -IS
"""The CNI plugin that Mesos runs for each container: a pipe to the agent of this host.

Takes the environment of one CNI call and the labels that Mesos' isolator wrote beside the
namespace; prints the answer of the agent's socket (`netplugin.mesos`) unchanged. Exits with 0, with
1 if the environment lacks something, and with 2 for any other error: see
docs/original/mesos-plugin.md.

This file alone is installed on hosts, so it imports nothing else of the project.
"""

import http.client
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

VERSION = "0.2.0"
"""That of `core.version`, which this file cannot import; a test compares them."""
GIT_COMMIT = ""
BUILD_TIME = ""
CNI_VERSION = "0.2"
SOCKET = "/run/contiv/contiv-mesos.sock"
SOCKET_VARIABLE = "CONTIV_MESOS_SOCKET"
LOG_VARIABLE = "CONTIV_MESOS_LOG"
LOG_FILE = "/var/log/netcontiv.log"
LARGEST_LOG = 50 << 20
"""Bytes from which on a log is renamed to `.old` when a call begins."""
TIMEOUT = 90.0
"""Seconds for each step of a call."""
LARGEST_REPLY = 1 << 20

PATHS = {"ADD": "/MesosNwIntfAdd", "DEL": "/MesosNwIntfDel"}
REQUIRED = ("CNI_COMMAND", "CNI_IFNAME", "CNI_NETNS", "CNI_CONTAINERID")
LABELS = ("io.contiv.tenant", "io.contiv.network", "io.contiv.net-group")

FAILED = 2
"""The exit code of errors, and the code in their text: an unsupported field."""

log = logging.getLogger("netcontiv")


class NoCall(Exception):
    """The environment is not that of a call that this plugin carries out."""


class AgentConnection(http.client.HTTPConnection):
    """HTTP on the agent's unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        """Connect. Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def command_of(env: Mapping[str, str]) -> str:
    """Return ADD or DEL. Raises NoCall for another command, and for a variable that is missing."""
    for name in REQUIRED:
        if not env.get(name):
            raise NoCall(f"failed to get env variable {name}")
    command = env["CNI_COMMAND"].upper()
    if command not in PATHS:
        raise NoCall(f"unknown CNI command {env['CNI_COMMAND']}")
    return command


def labels_of(netns: str) -> dict[str, str]:
    """Return the labels that say where a container belongs; none if they cannot be read."""
    source = Path(netns).parent / "netcontiv" / "network.conf"
    try:
        config = json.loads(source.read_bytes())
        labels = config["args"]["org.apache.mesos"]["network_info"]["labels"]["labels"]
        found = {label["key"]: label["value"] for label in labels}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        log.warning("no labels in %s: %r", source, error)
        return {}
    return {name: found[name] for name in LABELS if isinstance(found.get(name), str)}


def request_of(env: Mapping[str, str]) -> bytes:
    """Return the body of the call."""
    call = {
        "cni_ifname": env["CNI_IFNAME"],
        "cni_netns": env["CNI_NETNS"],
        "cni_containerid": env["CNI_CONTAINERID"],
        "labels": labels_of(env["CNI_NETNS"]),
    }
    return json.dumps(call).encode()


def ask_agent(path: str, where: str, body: bytes) -> tuple[int, str]:
    """Post a request to the agent; return exit code and stdout."""
    connection = AgentConnection(where)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read(LARGEST_REPLY).decode()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return failure(f"failed to get response from netplugin :{where}: {error}")
    finally:
        connection.close()
    if reply.status == http.HTTPStatus.OK:
        return 0, text
    if reply.status == http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return FAILED, text
    return failure(f"error response from netplugin: {reply.reason}")


def failure(said: str) -> tuple[int, str]:
    """Return exit code and stdout of an error that the agent did not see."""
    error = {"cniVersion": CNI_VERSION, "code": FAILED, "msg": f"contiv: {said}"}
    return FAILED, json.dumps(error, separators=(",", ":"))


def answer(env: Mapping[str, str]) -> tuple[int, str]:
    """Return exit code and stdout of a call; "" for no output at all."""
    try:
        command = command_of(env)
    except NoCall as error:
        log.warning("%s", error)
        return 1, ""
    body = request_of(env)
    log.info("%s %s: %s", command, env["CNI_CONTAINERID"], body)
    code, text = ask_agent(PATHS[command], env.get(SOCKET_VARIABLE) or SOCKET, body)
    log.info("exit code %d: %s", code, text)
    return code, text + "\n"


def log_file(path: Path) -> logging.Handler:
    """Return what writes the log to a file; if it cannot be opened, to nowhere: calls go on."""
    try:
        if path.exists() and path.stat().st_size >= LARGEST_LOG:
            path.replace(f"{path}.old")
        return logging.FileHandler(path)
    except OSError:
        return logging.NullHandler()


def main() -> int:
    """Answer one call; return the exit code."""
    if sys.argv[1:] in (["-version"], ["--version"]):
        shown = {"Version": VERSION, "GitCommit": GIT_COMMIT, "BuildTime": BUILD_TIME}
        lines = "".join(f"{name}: {value}\n" for name, value in shown.items())
        sys.stdout.write(f"Contiv netplugin version : {lines}")
        return 0
    logging.basicConfig(
        handlers=[log_file(Path(os.environ.get(LOG_VARIABLE) or LOG_FILE))],
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    code, text = answer(os.environ)
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
