"""Work that is done for IPv4 and for IPv6: what fails for one family never stops the other.

In comes the work for a family; out go the failures, by family. Used by whatever sets rules of both:
`netplugin.bridges.host.host_access`, `netplugin.bridges.guards.host_guard`,
`netplugin.bridges.services.service_access`, `netplugin.pods.host_port_mappings.port_mappings`,
`netplugin.commands.cleanup`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from core.errors import ContivError, HostError

FAMILIES: Final = (4, 6)

Failures = Mapping[int, ContivError]
"""What failed, by family."""


async def each_family(
    work: Callable[[int], Awaitable[object]], versions: Iterable[int] = FAMILIES
) -> Failures:
    """Do the work for each family, one after the other; return what failed."""
    failures: dict[int, ContivError] = {}
    for version in versions:
        try:
            await work(version)
        except ContivError as exc:
            failures[version] = exc
    return failures


def raise_any(failures: Failures) -> None:
    """Raise a HostError that names each family that failed, if any did."""
    if failures:
        raise HostError("; ".join(f"IPv{version}: {exc}" for version, exc in failures.items()))
