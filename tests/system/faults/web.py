"""The five things a client asks of a master, each answered by the address it is about.

In come what is meant and a master's URL; out comes an address, or an error of `core.errors`. Whom
to ask, and what an error means, is `tests.system.faults.clients`' business.
"""

from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import aiohttp

from contivmodel.client import (
    ADDRESS_BLOCKS,
    ALLOC_ADDRESS,
    CREATE_ENDPOINT,
    DELETE_ENDPOINT,
    NO_LEADER,
    RELEASE_ADDRESS,
    MasterClient,
)
from contivmodel.rpc import (
    AllocAddressRequest,
    ConfigEP,
    CreateEndpointRequest,
    DeleteEndpointRequest,
    ReleaseAddressRequest,
)
from core.errors import MasterRefused, NotFound, NotLeader
from core.ids import HostLabel
from netplugin.masters.address_blocks import BlocksAnswer, BlocksAsked
from netplugin.masters.master_api import blocks_answer, blocks_request
from tests.system.faults.evidence import group_of
from tests.system.faults.history import Verb

PATIENCE: Final = 3.0
"""Seconds a client waits for an answer."""

TENANT: Final = "default"


@dataclass(frozen=True, slots=True)
class Ahead:
    """An endpoint with an address that its host held, and the token of its grant."""

    network: str
    client: str
    name: str
    host: HostLabel
    address: str
    token: str


class Web:
    """Connections to masters, shared by all clients."""

    def __init__(self) -> None:
        self._plugin = MasterClient(timeout=PATIENCE)
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=PATIENCE), connector=aiohttp.TCPConnector(limit=0)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._plugin.close()
        await self._session.close()

    async def ask(
        self, url: str, verb: Verb, *, network: str, client: str, name: str, address: str
    ) -> str:
        """Ask a master for something; `address` is what the name has, where it is known."""
        pool = f"{network}:{group_of(client, network)}.{TENANT}"
        match verb:
            case Verb.CREATE:
                config = ConfigEP(
                    container=name, host="nowhere", service_name=group_of(client, network)
                )
                wanted = CreateEndpointRequest(
                    tenant_name=TENANT, network_name=network, config=config
                )
                created = await self._plugin.call(CREATE_ENDPOINT, wanted, base_url=url)
                return created.endpoint.ip_address
            case Verb.DELETE:
                unwanted = DeleteEndpointRequest(
                    tenant_name=TENANT, network_name=network, endpoint_id=name
                )
                gone = await self._plugin.call(DELETE_ENDPOINT, unwanted, base_url=url)
                return gone.endpoint.ip_address
            case Verb.ALLOCATE:
                place = AllocAddressRequest(network_id=pool)
                reserved = await self._plugin.call(ALLOC_ADDRESS, place, base_url=url)
                return reserved.address.partition("/")[0]
            case Verb.RELEASE:
                released = ReleaseAddressRequest(network_id=pool, ipv4_address=address)
                await self._plugin.call(RELEASE_ADDRESS, released, base_url=url)
                return address
            case Verb.LOOK:
                return await self._look(url, name)
            case Verb.REPORT:
                raise AssertionError("a report needs its token")

    async def renew(self, url: str, label: HostLabel, asked: BlocksAsked) -> BlocksAnswer:
        """Renew the lease under which a host holds addresses ahead of its endpoints."""
        reply = await self._plugin.call(ADDRESS_BLOCKS, blocks_request(label, asked), base_url=url)
        return blocks_answer(reply)

    async def report(self, url: str, endpoint: Ahead) -> str:
        """Create an endpoint with the address that its host gave it."""
        group = group_of(endpoint.client, endpoint.network)
        wanted = CreateEndpointRequest(
            tenant_name=TENANT,
            network_name=endpoint.network,
            claim="true",
            block=endpoint.token,
            config=ConfigEP(
                container=endpoint.name,
                host=endpoint.host,
                ip_address=endpoint.address,
                service_name=group,
            ),
        )
        created = await self._plugin.call(CREATE_ENDPOINT, wanted, base_url=url)
        return created.endpoint.ip_address

    async def is_led(self, url: str) -> bool:
        """Whether a master answers, which it cannot without a leader."""
        try:
            async with self._session.get(f"{url}/version") as answer:
                return answer.status == HTTPStatus.OK
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _look(self, url: str, name: str) -> str:
        path = f"{url}/api/v1/inspect/endpoints/{name}/"
        try:
            async with self._session.get(path) as answer:
                if answer.status == HTTPStatus.OK:
                    return str((await answer.json())["Oper"]["ipAddress"][0])
                text = (await answer.text()).partition("\n")[0]
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise MasterRefused(f"GET {path}: {exc}") from exc
        if text == NO_LEADER:
            raise NotLeader(text)
        raise NotFound(text) if text == "endpoint not found" else MasterRefused(text)
