"""Assigns clients of services to providers by least connections. Pure.

A new client gets the provider with the fewest clients, of several the one with the lowest address.
It keeps the provider until one of the two is removed; a new provider takes over no client, only new
clients even the loads out. (`ofnetSvcProxy.go`, `pqueue.go`; there a client that is removed is
never taken off its provider's load.) `ofnet.services.clients` adds and removes clients.
"""

from collections.abc import Collection, Hashable
from ipaddress import IPv4Address

from core.multimap import discard

Provider = IPv4Address


class LeastConnections:
    """The clients of each provider of each service; a client may be anything that is hashable."""

    # Ties go to the lowest address, not to a random provider: the choice is then a function of the
    # loads alone, and a test or a second run of the same packets gives the same assignment.

    def __init__(self) -> None:
        self._providers: dict[tuple[str, Hashable], Provider] = {}
        self._clients: dict[tuple[str, Provider], set[Hashable]] = {}

    def load(self, service: str, provider: Provider) -> int:
        """Return the number of clients of a provider."""
        return len(self._clients.get((service, provider), ()))

    def clients(self, service: str, provider: Provider) -> frozenset[Hashable]:
        """Return the clients of a provider."""
        return frozenset(self._clients.get((service, provider), ()))

    def provider(self, service: str, client: Hashable) -> Provider | None:
        """Return the provider of a client."""
        return self._providers.get((service, client))

    def assign(self, service: str, client: Hashable, among: Collection[Provider]) -> Provider:
        """Return a client's provider; assign the one with the fewest clients if it has none."""
        known = self.provider(service, client)
        if known is not None:
            return known
        chosen = min(among, key=lambda provider: (self.load(service, provider), provider))
        self.pin(service, client, chosen)
        return chosen

    def pin(self, service: str, client: Hashable, provider: Provider) -> None:
        """Assign a provider to a client, whatever the loads are."""
        self.release(service, client)
        self._providers[service, client] = provider
        self._clients.setdefault((service, provider), set()).add(client)

    def release(self, service: str, client: Hashable) -> None:
        """Remove a client from its provider."""
        provider = self._providers.pop((service, client), None)
        if provider is not None:
            discard(self._clients, (service, provider), client)
