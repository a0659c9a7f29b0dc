"""Running the CNI plugin as a container runtime does, against an agent whose handler is a fake."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path
from typing import Any

from netplugin.cni.request import GcRequest, PodRequest
from netplugin.cni.results import PodResult
from netplugin.cni.server import CniHandlers
from tests.bed.plugin import SCRIPT
from tests.bed.waiting import WITHIN

PLUGIN = SCRIPT
"""What `run_plugin` runs; conftest.py sets it."""
CONFIG = '{"cniVersion":"0.3.1","name":"contiv-net","type":"contivk8s"}'


@dataclass(frozen=True)
class Outcome:
    """What a runtime sees of a call."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """Stdout as what it should be."""
        value: dict[str, Any] = json.loads(self.stdout)
        return value


async def run_plugin(
    env: Mapping[str, str], stdin: str = CONFIG, *, socket: Path | None = None, argv: str = ""
) -> Outcome:
    """Run the plugin with exactly this environment, the agent's socket added."""
    where = {} if socket is None else {"CONTIV_CNI_SOCKET": str(socket)}
    process = await asyncio.create_subprocess_exec(
        PLUGIN,
        *argv.split(),
        env={**env, **where},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(stdin.encode())
    return Outcome(process.returncode or 0, out.decode(), err.decode())


def environment(verb: str, container: str = "abc123", **more: str) -> dict[str, str]:
    """Return what containerd sets for a pod."""
    return {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": container,
        "CNI_NETNS": f"/var/run/netns/{container}",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
        "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID={container}",
        **more,
    }


@dataclass
class FakePods:
    """Carries all calls out, and gives every container an address of its own."""

    ipv4: IPv4Interface = field(default_factory=lambda: IPv4Interface("10.1.1.5/24"))
    ipv6: IPv6Interface | None = None
    error: BaseException | None = None
    gate: asyncio.Event | None = None
    added: list[PodRequest] = field(default_factory=list)
    deleted: list[PodRequest] = field(default_factory=list)
    checked: list[PodRequest] = field(default_factory=list)
    collected: list[GcRequest] = field(default_factory=list)
    busy: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def handlers(self) -> CniHandlers:
        return CniHandlers(self, self, self, self)

    async def add(self, request: PodRequest) -> PodResult:
        self.added.append(request)
        await self._work()
        return PodResult(
            endpoint_id=f"n1.default-{request.spec.container_id}",
            mac="02:02:0a:01:01:05",
            ipv4=self.ipv4,
            ipv6=self.ipv6,
            gateway=IPv4Address("10.1.1.1"),
            gateway6=None if self.ipv6 is None else IPv6Address("2001:db8::1"),
            mtu=1450,
            host_ifname="vvport1",
        )

    async def delete(self, request: PodRequest) -> None:
        self.deleted.append(request)
        await self._work()

    async def check(self, request: PodRequest) -> None:
        self.checked.append(request)
        await self._work()

    async def collect(self, request: GcRequest) -> None:
        self.collected.append(request)
        await self._work()

    async def status(self) -> None:
        await self._work()

    async def until_busy(self, calls: int) -> None:
        """Wait until that many calls are being worked on at once."""
        async with asyncio.timeout(WITHIN), self._changed:
            await self._changed.wait_for(lambda: self.busy == calls)

    async def _work(self) -> None:
        await self._count(1)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.error is not None:
                raise self.error
        finally:
            await self._count(-1)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.busy += change
            self._changed.notify_all()
