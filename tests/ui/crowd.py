"""Fills a netmaster by REST: tenants, networks, groups, a policy, endpoints on ten hosts."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import aiohttp

from tests.bed.master import Master

CLIENTS: Final = 48
HOSTS: Final = 10
GROUPS: Final = {10: 4, 1_000: 16, 10_000: 40}
"""Endpoints -> groups of the first tenant."""
OTHER: Final = "blue"
BAD_NAME: Final = "a<img-src=x-onerror=alert.1>"
"""A name that must be shown as it is, on a container: objects' names have patterns."""
HELD: Final = {"tenantName": "default"}


def fill(master: Master, endpoints: int) -> None:
    """Make the objects and so many endpoints."""
    # in a thread, since the browser's driver has a loop in this one
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_fill(master.url, endpoints))).result()


def group(number: int) -> str:
    """Return the name of a group."""
    return f"group-{number:02}"


def objects(groups: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is created before the endpoints, as (plural, body) of API v2."""
    yield "tenants", {"tenantName": OTHER}
    for name, subnet, tenant in (
        ("front", "10.1.0.0/16", "default"),
        ("back", "10.2.0.0/24", "default"),
        ("other", "10.3.0.0/24", OTHER),
    ):
        first = subnet.rpartition(".")[0]
        net = {"tenantName": tenant, "networkName": name, "encap": "vxlan", "subnet": subnet}
        yield "networks", {**net, "gateway": f"{first}.254"}
    yield "policys", {**HELD, "policyName": "doors"}
    rule = {**HELD, "policyName": "doors", "direction": "in"}
    yield "rules", {**rule, "ruleId": "1", "action": "deny", "protocol": "tcp"}
    for number in range(groups):
        policies = ["doors"] if number % 2 else []
        named = {**HELD, "groupName": group(number), "networkName": "front"}
        yield "endpointGroups", {**named, "policies": policies}
    web = {**rule, "ruleId": "2", "action": "allow", "priority": 10, "protocol": "tcp", "port": 80}
    yield "rules", {**web, "fromEndpointGroup": group(0)}


async def _fill(url: str, endpoints: int) -> None:
    groups = GROUPS[endpoints]
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        for plural, body in objects(groups):
            async with session.post(f"/api/v2/{plural}", json=body) as answer:
                assert answer.status == 201, await answer.text()
        left = iter(range(endpoints))
        await asyncio.gather(*(_create(session, left, groups) for _ in range(CLIENTS)))


async def _create(session: aiohttp.ClientSession, left: Iterator[int], groups: int) -> None:
    for number in left:
        body = endpoint(f"{number:012x}", number % groups, f"h{number % HOSTS}")
        async with session.post("/plugin/createEndpoint", json=body) as answer:
            assert answer.status == 200, await answer.text()


def endpoint(name: str, in_group: int, host: str, shown: str = "") -> dict[str, Any]:
    """Return the request for an endpoint."""
    return {
        "TenantName": "default",
        "NetworkName": "front",
        "ServiceName": group(in_group),
        "EndpointID": name,
        "EPCommonName": shown or f"pod-{name}",
        "ConfigEP": {"Container": name, "Host": host, "ServiceName": group(in_group)},
    }
