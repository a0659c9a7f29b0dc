"""A cluster beside an API server of Kubernetes: what its agents and its hosts need for that.

In comes a bed; out come the flags of its agents and the server itself. Must not know what the
server is given: services, policies and the like are the tests'.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.kubernetes import ApiServer

API_PORT = 6443
TOKEN = "secret"


def api_flags(factory: pytest.TempPathFactory) -> list[str]:
    """Return the flags that tell an agent of the server."""
    file = factory.mktemp("kubernetes") / "contiv.json"
    server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
    file.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": TOKEN}))
    return ["--k8s-config", str(file)]


@contextmanager
def api_beside(bed: Bed, *groups: str) -> Iterator[ApiServer]:
    """Run the server beside netmaster, with further groups of its API; it is told of pods."""
    with ApiServer(bed.fabric.address, API_PORT, namespace=bed.fabric.namespace) as api:
        api.token = TOKEN
        api.served.update(groups)
        bed.api = api
        try:
            yield api
        finally:
            bed.api = None


def forward(bed: Bed) -> None:
    """Have the hosts forward, as nodes do, and give them a default route."""
    for host in bed.hosts:
        forwards = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]
        host.namespace.run(["sysctl", "-q", "-w", *forwards])
        host.namespace.run(["ip", "route", "add", "default", "via", FABRIC_ADDRESS])
