"""A request that was given up while its host was cut off does not arrive when that is over."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from contivmodel.client import (
    ALLOC_ADDRESS,
    CREATE_ENDPOINT,
    DELETE_ENDPOINT,
    MasterClient,
)
from contivmodel.rpc import (
    AllocAddressRequest,
    CreateEndpointRequest,
    DeleteEndpointRequest,
)
from core.errors import MasterUnavailable
from core.net import tls_trust
from tests.bed.certificates import make_certificates
from tests.bed.hosts import PREFIX_LENGTH, UNDERLAY, Fabric
from tests.bed.janitor import Janitor
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import eventually

GIVEN_UP = 0.5
"""Seconds."""
LINK = "uhost"
_DISABLED, _FORWARDING = "0", "3"


@pytest.fixture
def fabric(janitor: Janitor) -> Iterator[Fabric]:
    fabric = Fabric(fresh_name("fabric"), keeper=janitor)
    try:
        yield fabric.start()
    finally:
        fabric.stop()


@pytest.fixture
def host(fabric: Fabric, janitor: Janitor) -> Iterator[Namespace]:
    """Make a host's namespace, joined to the fabric."""
    host = Namespace(fresh_name("host"), keeper=janitor).create()
    try:
        fabric.join(host, LINK)
        host.run(["ip", "address", "add", f"{UNDERLAY}.1/{PREFIX_LENGTH}", "dev", "eth0"])
        yield host
    finally:
        host.delete()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_a_request_that_was_given_up_does_not_arrive(
    fabric: Fabric, host: Namespace, secured: bool, tmp_path: Path
) -> None:
    """A creation that arrived after the deletion that undoes it would leave an endpoint."""
    listening = fabric.namespace.call(lambda: socket.create_server((fabric.address, 0)))
    tls = Tls(tmp_path, fabric.address) if secured else None
    arrived = host.call(lambda: asyncio.run(_cut_off(fabric, host, listening, tls)))
    assert arrived == ["allocAddress", "deleteEndpoint"]


class Tls:
    """The contexts of a server at an address, and of its clients."""

    def __init__(self, directory: Path, address: str) -> None:
        make_certificates(directory, address)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(directory / "server.pem", directory / "server.key")
        self._ca = directory / "ca.pem"

    def client(self) -> ssl.SSLContext:
        return tls_trust.client_context(ca_file=str(self._ca))


async def _cut_off(
    fabric: Fabric, host: Namespace, listening: socket.socket, tls: Tls | None
) -> list[str]:
    """Give a creation up during the cut, and delete after it; return what arrived."""
    arrived: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        arrived.append(request.path.rpartition("/")[2])
        return web.json_response({"EndpointConfig": {"endpointID": "e", "labels": None}})

    async def none_in(state: str) -> None:
        words = ["ss", "-Htn", "state", state]
        await asyncio.to_thread(
            eventually, lambda: not host.run(words).stdout, f"no connection is {state}"
        )

    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    await web.SockSite(runner, listening, ssl_context=tls.server if tls else None).start()
    url = f"{'https' if tls else 'http'}://{fabric.address}:{listening.getsockname()[1]}"
    context = tls.client if tls else None
    async with (
        MasterClient(url, ssl=context) as client,
        MasterClient(url, timeout=GIVEN_UP, ssl=context) as hasty,
    ):
        await hasty.call(ALLOC_ADDRESS, AllocAddressRequest(network_id="n"))
        _forward(fabric, _DISABLED)
        with pytest.raises(MasterUnavailable) as given_up:
            await hasty.call(
                CREATE_ENDPOINT,
                CreateEndpointRequest(tenant_name="t", network_name="n", endpoint_id="e"),
            )
        assert given_up.value.outcome_unknown
        await none_in("established")
        _forward(fabric, _FORWARDING)
        await client.call(
            DELETE_ENDPOINT,
            DeleteEndpointRequest(tenant_name="t", network_name="n", endpoint_id="e"),
        )
        await none_in("fin-wait-1")
    await runner.cleanup()
    return arrived


def _forward(fabric: Fabric, state: str) -> None:
    """Have the fabric drop what comes from and goes to the host, which keeps its carrier."""
    fabric.namespace.run(["bridge", "link", "set", "dev", LINK, "state", state])
