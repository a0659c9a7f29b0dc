"""A fake ACI gateway: records its calls and holds the profiles that result from them."""

import asyncio
import json
from dataclasses import dataclass, field

from netmaster.external.aci import GatewayFailed


@dataclass
class FakeGateway:
    """`held` are the profiles by `tenant:name`; while `failing`, creating one fails."""

    held: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    failing: bool = False
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """While cleared, a profile that is held already is not answered for."""

    def __post_init__(self) -> None:
        self.gate.set()

    async def create(self, body: str) -> None:
        """Hold a profile, or fail."""
        self.calls.append(("create", _profile(body)))
        if self.failing:
            raise GatewayFailed("Validation failed. Error: failed - no fabric")
        self.held[_profile(body)] = body
        self.arrived.set()
        await self.gate.wait()

    async def delete(self, body: str) -> None:
        """Forget a profile."""
        self.calls.append(("delete", _profile(body)))
        self.held.pop(_profile(body), None)


def _profile(body: str) -> str:
    spec = json.loads(body)
    return f"{spec['tenant']}:{spec['app-prof']}"
