"""The calls of container runtimes: the `PodHandler` behind the CNI server, from its parts."""

from netplugin.cni.request import GcRequest, PodRequest
from netplugin.cni.results import PodResult
from netplugin.pods.check import PodCheck
from netplugin.pods.collect import PodCollect
from netplugin.pods.handler import Pods
from netplugin.pods.readiness import Readiness


class CniCalls:
    """Passes each verb to the class that carries it out."""

    def __init__(
        self, pods: Pods, check: PodCheck, collect: PodCollect, readiness: Readiness
    ) -> None:
        self._pods = pods
        self._check = check
        self._collect = collect
        self._readiness = readiness

    async def add(self, request: PodRequest) -> PodResult:
        """As `Pods.add`."""
        return await self._pods.add(request)

    async def delete(self, request: PodRequest) -> None:
        """As `Pods.delete`."""
        await self._pods.delete(request)

    async def check(self, request: PodRequest) -> None:
        """As `PodCheck.check`."""
        await self._check.check(request)

    async def collect(self, request: GcRequest) -> None:
        """As `PodCollect.collect`."""
        await self._collect.collect(request)

    async def status(self) -> None:
        """As `Readiness.status`."""
        await self._readiness.status()
