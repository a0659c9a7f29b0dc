"""Who serves which client of a service: decided here, remembered here. Pure.

A new client gets the provider with the fewest clients, of several the one with the lowest address,
and keeps it until one of both goes. Nobody is moved because a provider came; only new clients even
the loads out. (`ofnetSvcProxy.go`, `pqueue.go`, where what clients leave behind is never taken off
a load.) `ofnet.services.clients` knows who comes and goes.
"""

from collections.abc import Collection, Hashable
from ipaddress import IPv4Address

from core.multimap import discard

Provider = IPv4Address


class LeastConnections:
    """The clients of each provider of each service; a client may be anything that is hashable."""

    def __init__(self) -> None:
        self._providers: dict[tuple[str, Hashable], Provider] = {}
        self._clients: dict[tuple[str, Provider], set[Hashable]] = {}

    def load(self, service: str, provider: Provider) -> int:
        """Return how many clients a provider serves."""
        return len(self._clients.get((service, provider), ()))

    def clients(self, service: str, provider: Provider) -> frozenset[Hashable]:
        """Return whom a provider serves."""
        return frozenset(self._clients.get((service, provider), ()))

    def provider(self, service: str, client: Hashable) -> Provider | None:
        """Return who serves a client."""
        return self._providers.get((service, client))

    def assign(self, service: str, client: Hashable, among: Collection[Provider]) -> Provider:
        """Return who serves a client from now on: who does already, else who has least to do."""
        known = self.provider(service, client)
        if known is not None:
            return known
        chosen = min(among, key=lambda provider: (self.load(service, provider), provider))
        self.hold(service, client, chosen)
        return chosen

    def hold(self, service: str, client: Hashable, provider: Provider) -> None:
        """Have a client served by a provider, whatever the loads are."""
        self.release(service, client)
        self._providers[service, client] = provider
        self._clients.setdefault((service, provider), set()).add(client)

    def release(self, service: str, client: Hashable) -> None:
        """Forget that a client is served."""
        provider = self._providers.pop((service, client), None)
        if provider is not None:
            discard(self._clients, (service, provider), client)
