"""Health check ports: what is answered, and when."""

import asyncio

import pytest

from core.errors import HostError
from netplugin.bridges.services.health_checks import HealthChecks, ServiceHealth
from tests.bed.netns import free_port
from tests.unit.netplugin.bridges.services.health import asked


async def test_it_says_whether_there_are_targets_here() -> None:
    checks, port = HealthChecks(), free_port()
    for count, status in ((2, 200), (0, 503)):
        await checks.keep({port: ServiceHealth("shop", "web", count)})
        assert await asked(port) == (
            status,
            {
                "service": {"namespace": "shop", "name": "web"},
                "localEndpoints": count,
                "serviceProxyHealthy": True,
            },
        )
    await checks.keep({})
    with pytest.raises(ConnectionRefusedError):
        await asked(port)


async def test_a_port_in_use_stops_no_other() -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), None, 0)
    taken = server.sockets[0].getsockname()[1]
    checks, port = HealthChecks(), free_port()
    health = ServiceHealth("shop", "web", 1)
    with pytest.raises(HostError, match=f"health check port {taken}"):
        await checks.keep({taken: health, port: health})
    assert (await asked(port))[0] == 200
    await checks.keep({})
    server.close()
    await server.wait_closed()
