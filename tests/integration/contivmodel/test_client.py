"""The agent's client on the wire: kept and closed connections, timeouts, refusals."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from contivmodel.client import (
    ALLOC_ADDRESS,
    ALLOC_NETWORK,
    CREATE_ENDPOINT,
    DELETE_ENDPOINT,
    FREE_NETWORK,
    RELEASE_ADDRESS,
    MasterClient,
)
from contivmodel.rpc import (
    AllocAddressRequest,
    AllocNetworkRequest,
    ConfigEP,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    FreeNetworkRequest,
    ReleaseAddressRequest,
)
from core.errors import MasterUnavailable, NotFound, NotLeader

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]

CREATE = CreateEndpointRequest(
    tenant_name="default",
    network_name="n1",
    endpoint_id="ep1",
    common_name="c1",
    config=ConfigEP(container="ep1", host="h1"),
)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[TestServer] = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        server = TestServer(app, host="127.0.0.1")
        await server.start_server()
        servers.append(server)
        return str(server.make_url("")).rstrip("/")

    yield start
    for server in servers:
        await server.close()


async def test_requests_are_what_the_routes_want_over_one_connection(serve: Serve) -> None:
    seen: list[tuple[str, str, dict[str, object]]] = []
    connections: set[object] = set()

    async def handler(request: web.Request) -> web.Response:
        connections.add(request.transport)
        seen.append((request.path, request.headers["Content-Type"], await request.json()))
        if request.path.endswith("Address"):
            return web.json_response({"NetworkID": "n1.default", "IPv4Address": "10.1.1.1/24"})
        if request.path.endswith("Network"):
            return web.json_response({"TenantName": "default", "NetworkName": "d1"})
        return web.json_response({"EndpointConfig": {"endpointID": "ep1", "labels": None}})

    async with MasterClient(await serve(handler)) as client:
        created = (await client.call(CREATE_ENDPOINT, CREATE)).endpoint
        gone = await client.call(
            DELETE_ENDPOINT,
            DeleteEndpointRequest(tenant_name="default", network_name="n1", endpoint_id="ep1"),
        )
        address = await client.call(ALLOC_ADDRESS, AllocAddressRequest(network_id="n1.default"))
        await client.call(
            RELEASE_ADDRESS, ReleaseAddressRequest(network_id="n1.default", ipv4_address="10.1.1.1")
        )
        place = await client.call(ALLOC_NETWORK, AllocNetworkRequest(docker_id="d1"))
        await client.call(FREE_NETWORK, FreeNetworkRequest(docker_id="d1"))
    assert (created.endpoint_id, gone.endpoint.endpoint_id) == ("ep1", "ep1")
    assert address.address == "10.1.1.1/24"
    assert [path for path, _, _ in seen] == [
        "/plugin/createEndpoint",
        "/plugin/deleteEndpoint",
        "/plugin/allocAddress",
        "/plugin/releaseAddress",
        "/plugin/allocNetwork",
        "/plugin/freeNetwork",
    ]
    assert (place.tenant_name, place.network_name, place.service_name) == ("default", "d1", "")
    assert {content_type for _, content_type, _ in seen} == {"application/json"}
    assert seen[0][2]["ConfigEP"] == {"Container": "ep1", "Host": "h1"}
    assert len(connections) == 1


async def test_a_call_may_name_another_netmaster(serve: Serve) -> None:
    async def other(_request: web.Request) -> web.Response:
        return web.json_response({"EndpointConfig": {"endpointID": "there"}})

    url = await serve(other)
    async with MasterClient("http://127.0.0.1:9") as client:
        assert (
            await client.call(CREATE_ENDPOINT, CREATE, base_url=url)
        ).endpoint.endpoint_id == "there"


@pytest.mark.parametrize(
    ("body", "error"), [("Leader not found\n", NotLeader), ("key not found\nstack\n", NotFound)]
)
async def test_errors_are_the_first_line(body: str, error: type[Exception], serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=500, text=body)

    async with MasterClient(await serve(handler)) as client:
        with pytest.raises(error, match=f"^{body.partition(chr(10))[0]}$"):
            await client.call(CREATE_ENDPOINT, CREATE)


async def test_nobody_there_means_nothing_was_done(unused_tcp_port: int) -> None:
    async with MasterClient(f"http://127.0.0.1:{unused_tcp_port}") as client:
        with pytest.raises(MasterUnavailable) as failed:
            await client.call(CREATE_ENDPOINT, CREATE)
    assert not failed.value.outcome_unknown
    at = f"127.0.0.1:{unused_tcp_port}"
    told = f'Post "http://{at}/plugin/createEndpoint": cannot connect to {at}: connection refused'
    assert str(failed.value) == told


async def test_a_url_that_cannot_be_dialled_means_nothing_was_done() -> None:
    async with MasterClient("nonsense") as client:
        with pytest.raises(MasterUnavailable) as failed:
            await client.call(CREATE_ENDPOINT, CREATE)
    assert not failed.value.outcome_unknown


async def test_a_hang_up_leaves_the_outcome_unknown(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with MasterClient(await serve(handler)) as client:
        with pytest.raises(MasterUnavailable) as failed:
            await client.call(CREATE_ENDPOINT, CREATE)
    assert failed.value.outcome_unknown


async def test_silence_is_not_waited_for_without_end(serve: Serve) -> None:
    answered = asyncio.Event()

    async def handler(_request: web.Request) -> web.Response:
        await answered.wait()
        return web.Response(text=json.dumps({}))

    async with MasterClient(await serve(handler), timeout=0.05) as client:
        with pytest.raises(MasterUnavailable, match="no answer in time") as failed:
            await client.call(CREATE_ENDPOINT, CREATE)
    answered.set()
    assert failed.value.outcome_unknown


async def test_a_closed_client_opens_again(serve: Serve) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.json_response("success")

    client = MasterClient(await serve(handler))
    await client.call(RELEASE_ADDRESS, ReleaseAddressRequest())
    await client.close()
    await client.call(RELEASE_ADDRESS, ReleaseAddressRequest())
    await client.close()


async def test_a_netmaster_that_cannot_work_says_why(serve: Serve) -> None:
    answers = [web.Response(text='{"ready": true}'), web.Response(status=503, text="no store")]

    async def handler(request: web.Request) -> web.Response:
        assert request.path == "/readyz"
        return answers.pop(0)

    async with MasterClient(await serve(handler)) as client:
        await client.check_ready()
        with pytest.raises(MasterUnavailable, match="it is not ready: no store"):
            await client.check_ready()
    async with MasterClient("http://127.0.0.1:1") as client:
        with pytest.raises(MasterUnavailable, match="readyz"):
            await client.check_ready()
