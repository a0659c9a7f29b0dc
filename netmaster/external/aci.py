"""Client of the ACI gateway's REST API; no other module calls it.

It sends the JSON of `netmaster.plan.external.aci` and checks the result;
`netmaster.external.external_effects` decides when. Requests are rare, so each has a connection of
its own.

Source: docs/original/netmaster-rest.md §3.
"""

import logging
from typing import Any, Final

import aiohttp

from core.errors import ContivError
from core.logs import fields
from core.outside_json import read_json
from daemons.http_client import Connector

log = logging.getLogger(__name__)

CREATE: Final = "createAppProf"
DELETE: Final = "deleteAppProf"
TIMEOUT: Final = 30.0
"""Seconds for one request: the gateway answers when the fabric has."""


class GatewayFailed(ContivError):
    """The ACI gateway cannot be reached, or refused a request."""


class GatewayClient:
    """The gateway at a URL; `timeout` is for one request."""

    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        self._url = url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout)

    async def create(self, body: str) -> None:
        """Create an application profile in the fabric."""
        result, info = await self._post(CREATE, body)
        if result != "success":
            raise GatewayFailed(f"Validation failed. Error: {result} - {info}")

    async def delete(self, body: str) -> None:
        """Delete an application profile from the fabric; a refusal is only logged."""
        result, info = await self._post(DELETE, body)
        # A refusal usually means that the gateway never had the profile. As an error it would keep
        # the profile from being deleted here for ever.
        if result != "success":
            log.warning("ACI gateway refused deletion", extra=fields(error=f"{result} - {info}"))

    async def _post(self, call: str, body: str) -> tuple[str, str]:
        """Return result and info of an answer."""
        try:
            async with (
                aiohttp.ClientSession(connector=Connector(), timeout=self._timeout) as session,
                session.post(
                    f"{self._url}/{call}",
                    data=body.encode(),
                    headers={"Content-Type": "application/json"},
                ) as response,
            ):
                answer = _answer(response.status, response.reason or "", await response.read())
        except TimeoutError as exc:
            raise GatewayFailed(f"ACI gateway {self._url} does not answer in time") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise GatewayFailed(f"ACI gateway {self._url}: {exc}") from exc
        return str(answer.get("result", "")), str(answer.get("info", ""))


def _answer(status: int, reason: str, body: bytes) -> dict[str, Any]:
    match status:
        case 200:
            pass
        case 404:
            raise GatewayFailed("page not found")
        case 403:
            raise GatewayFailed("access denied")
        case _:
            raise GatewayFailed(f"{status} {reason}")
    try:
        answer = read_json(body)
    except ValueError as exc:
        raise GatewayFailed(f"ACI gateway: not JSON: {body[:80]!r}") from exc
    if not isinstance(answer, dict):
        raise GatewayFailed(f"ACI gateway: not an answer: {body[:80]!r}")
    return answer
