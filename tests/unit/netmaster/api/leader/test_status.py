"""What `/version` and `/info` say."""

from core import keys
from netmaster.api.leader.status import StatusApi
from objdb.api import Change, Lock, Put
from objdb.memory import MemoryBackend
from ofnet.rpc.control import Node, OfnetMaster
from state import codec
from state.records import ServiceInstance


def _status(backend: MemoryBackend, lock: Lock) -> StatusApi:
    return StatusApi("1.2.3", backend, lock, ofnet=OfnetMaster(), own=Node("10.0.0.1", 9001))


async def test_info_lists_leader_and_nodes() -> None:
    backend = MemoryBackend()
    lock = backend.lock(keys.LEADER_LOCK, "10.0.0.1:9999", 5)
    await lock.acquire()
    for service, address, port in (
        ("netmaster", "10.0.0.1", 9999),
        ("netmaster", "10.0.0.2", 9999),
        ("netmaster.rpc", "10.0.0.3", 9001),
        ("netplugin", "10.0.0.4", 9002),
        ("netplugin", "10.0.0.4", 9003),
    ):
        instance = ServiceInstance(service=service, address=address, port=port)
        put = Put(keys.service(service, address, port), codec.encode(instance))
        await backend.commit([Change((), (put,))])
    assert await _status(backend, lock).info() == {
        "current-state": "leader",
        "leader-ip": "10.0.0.1:9999",
        "local-ip": "10.0.0.1",
        "netmaster-nodes": ["10.0.0.1", "10.0.0.2"],
        "netplugin-nodes": ["10.0.0.4", "10.0.0.4"],
    }


async def test_info_names_what_fails() -> None:
    backend = MemoryBackend()
    lock = backend.lock(keys.LEADER_LOCK, "10.0.0.1:9999", 5)
    own, faults = Node("10.0.0.1", 9001), ["clean-up failed: h1 does not answer"]
    status = StatusApi("1", backend, lock, ofnet=OfnetMaster(), own=own, faults=lambda: faults)
    assert (await status.info())["faults"] == faults


async def test_version_names_the_version() -> None:
    backend = MemoryBackend()
    lock = backend.lock(keys.LEADER_LOCK, "10.0.0.1:9999", 5)
    page = _status(backend, lock).version()
    assert list(page.items()) == [("GitCommit", ""), ("Version", "1.2.3"), ("BuildTime", "")]
