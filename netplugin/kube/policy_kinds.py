"""Finds kinds of policies that a cluster has and this agent does not follow: a fault of the host.

In come the resources that the API server has of the administrators' group (`netplugin.kube.api`);
out goes a text for each that is not among `netplugin.kube.resources`, for `netplugin.kube.feed` to
show: who writes such a policy must learn that it has no effect.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from core.errors import OrchestratorUnavailable
from core.logs import fields
from core.retry import ELSEWHERE, Loop, Pace, retry
from netplugin.kube.api import KubeApi, KubeRefused
from netplugin.kube.resources import POLICIES, Resource

log = logging.getLogger(__name__)

GROUP: Final = "policy.networking.k8s.io"
_UNKNOWN: Final = (
    f"which kinds of {GROUP} are installed is not known (403 Forbidden): bind the ClusterRole "
    "system:discovery to the agent's account"
)


def unfollowed(
    served: Mapping[str, Iterable[str]], followed: Iterable[Resource] = POLICIES
) -> list[str]:
    """Return a text for each resource of the group of which no version is followed.

    `served` has the resources by version.
    """
    versions: dict[str, list[str]] = {}
    for version, names in sorted(served.items()):
        for name in sorted(names):
            versions.setdefault(name, []).append(version)
    known = {one.name: one.versions for one in followed if one.group == GROUP}
    return [
        f"{name} of {GROUP} are installed as {', '.join(have)}, which is not followed: these "
        f"policies have no effect{_remedy(known.get(name, ()))}"
        for name, have in versions.items()
        if not {f"apis/{GROUP}/{version}" for version in have} & {*known.get(name, ())}
    ]


def _remedy(versions: Iterable[str]) -> str:
    wanted = " or ".join(version.rpartition("/")[2] for version in versions)
    return f"; serve {wanted}" if wanted else "; write clusternetworkpolicies"


class Notified(Protocol):
    """Who tells others that something changed (`netplugin.kube.feed`)."""

    def notify(self) -> None:
        """Tell of a change."""


class PolicyKinds:
    """What is installed; `faults` has the texts; `feed` hears when they are others."""

    def __init__(self, api: KubeApi, feed: Notified) -> None:
        self._api = api
        self._feed = feed
        self.faults: tuple[str, ...] = ()
        self._loop = Loop(
            log,
            "kinds of Kubernetes policies not known",
            pace=Pace(longest=api.timing.longest_pause),
            errors=OrchestratorUnavailable,
            patience=ELSEWHERE,  # the feed says what is wrong
        )

    async def run(self) -> None:
        """Look now and then, for ever: definitions come and go while the agent runs."""
        while True:
            found = await retry(self._loop, self._look)
            if found != self.faults:
                self.faults = found
                log.warning("Kubernetes policies not followed", extra=fields(errors=found))
                self._feed.notify()
            await asyncio.sleep(self._api.timing.not_served)

    async def _look(self) -> tuple[str, ...]:
        try:
            return tuple(unfollowed(await self._api.served(GROUP)))
        except KubeRefused as exc:
            if exc.status != 403:
                raise
            return (_UNKNOWN,)
