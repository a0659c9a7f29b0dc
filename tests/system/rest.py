"""Netmaster's REST interface, asked from beside it.

In comes a running bed; out come answers as netmaster gave them, of whatever status.
"""

import json
from typing import Any, NamedTuple

from tests.bed.cluster import Bed
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.waiting import WITHIN


class Answer(NamedTuple):
    """What a request got."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        """The first line of the body."""
        return self.body.decode().partition("\n")[0]

    def json(self) -> Any:
        """Return the body as data."""
        return json.loads(self.body)


def ask(
    bed: Bed, method: str, path: str, body: object = None, *, timeout: float = WITHIN
) -> Answer:
    """Send one request; a body that is not bytes is sent as JSON. Refusals raise `OSError`."""
    payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    namespace = bed.fabric.namespace
    url = f"{bed.url}{path}"
    return Answer(
        *http_request(
            url,
            namespace=namespace,
            method=method,
            body=payload,
            timeout=timeout,
            context=bed.context(),
        )
    )


def create_endpoint(
    bed: Bed, container: str, network: str = "default-net", *, host: str = "nowhere"
) -> Answer:
    """Ask for an endpoint, of no host in particular, as an agent does."""
    body = {
        "TenantName": "default",
        "NetworkName": network,
        "ConfigEP": {"Container": container, "Host": host},
    }
    return ask(bed, "POST", "/plugin/createEndpoint", body)


def delete_endpoint(bed: Bed, container: str, network: str = "default-net") -> Answer:
    """Release an endpoint, as an agent does."""
    body = {"TenantName": "default", "NetworkName": network, "EndpointID": container}
    return ask(bed, "POST", "/plugin/deleteEndpoint", body)


def release(bed: Bed, pod: Pod) -> None:
    """Release a pod's endpoint behind its agent's back."""
    answer = delete_endpoint(bed, pod.sandbox.container_id, pod.conf["contiv"]["network"])
    assert answer.status == 200, answer.text
