"""The cluster's settings are waited for, and agreed with."""

import asyncio
from dataclasses import replace

import pytest

from core import keys
from core.errors import UsageError
from netplugin.masters.cluster_settings import cluster_settings
from objdb.memory import MemoryBackend
from ofnet.world import FwdMode
from tests.unit.netplugin.agent import stays
from tests.unit.netplugin.starts import GLOBAL, SETTINGS, put


async def test_the_clusters_settings_are_waited_for() -> None:
    backend = MemoryBackend()
    waiting = asyncio.gather(cluster_settings(backend, SETTINGS))
    for incomplete in (replace(GLOBAL, fwd_mode=""), replace(GLOBAL, pvt_subnet="")):
        await put(backend, keys.GLOBAL_CONFIG, incomplete)
        await stays(lambda: not waiting.done(), 0.01)
    await put(backend, keys.GLOBAL_CONFIG, GLOBAL)
    (found,) = await waiting
    assert found == GLOBAL
    await backend.close()


async def test_another_forwarding_mode_ends_the_agent_with_a_remedy() -> None:
    backend = MemoryBackend()
    await put(backend, keys.GLOBAL_CONFIG, replace(GLOBAL, fwd_mode="bridge"))
    with pytest.raises(UsageError, match="start it with --fwdmode bridge"):
        await cluster_settings(backend, replace(SETTINGS, fwd_mode=FwdMode.ROUTING))
    await backend.close()
