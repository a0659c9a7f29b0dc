"""What tests of handler share."""

import pytest

from core.errors import (
    ContivError,
    Exhausted,
    HostError,
    SwitchRefused,
    SwitchUnavailable,
)
from ofnet.world import Bridge
from tests.unit.netplugin.agent import (
    Agent,
    request,
)

FLOWS = f"flows {Bridge.VXLAN}"


STEPS: dict[str, ContivError] = {
    "journal adding": HostError("disk full"),
    "create": Exhausted("address exhaustion"),
    "link": HostError("no such namespace"),
    "row": SwitchRefused("constraint"),
    FLOWS: SwitchUnavailable("no answer"),
    "inside": HostError("no such device"),
    "journal present": HostError("disk full"),
    "journal commit": HostError("disk failure"),
}
"""Every step of an ADD that may fail, with how it does."""


async def failure_of(agent: Agent) -> ContivError:
    with pytest.raises(ContivError) as failure:
        await agent.pods.add(request())
    return failure.value
