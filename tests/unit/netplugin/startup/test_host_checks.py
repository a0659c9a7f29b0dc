"""A loop without which no pod can be added keeps the agent from being ready, and STATUS says so."""

import logging

import pytest

from core.errors import HostError, SwitchRefused
from core.retry import Loop, Loops
from netplugin.cni.errors import NOT_AVAILABLE, NotReady
from netplugin.startup.host_checks import loops_ready

log = logging.getLogger(__name__)


async def test_vital_loops_alone_keep_pods_out() -> None:
    loops = Loops()
    check = loops_ready(loops)["loops"]
    Loop(log, "routes not set", loops=loops).failed(HostError("no"))
    await check()
    vital = Loop(log, "VRF ids not stored", vital=True, loops=loops)
    vital.failed(SwitchRefused("no bridge"))
    with pytest.raises(NotReady, match="VRF ids not stored: no bridge") as refused:
        await check()
    assert refused.value.code == NOT_AVAILABLE
    vital.succeeded()
    await check()
