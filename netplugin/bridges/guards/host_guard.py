"""The guard in the host's kernel: pods' packets, judged as the kernel translated them.

In come the management's ends (`netplugin.world.management`) and the cluster's private network; out
go chains for `netplugin.kernel.firewall.iptables_chains` and the rules that lead to them. The pod
guard of the switches (`ofnet.pipelines.features.pod_guard`) sees addresses before the host
translates them, by whose rules ever: the agent's, kube-proxy's, an administrator's. Here it is the
other way round:

* what came in from pods and now goes to a management address and port is dropped;
* what connection tracking calls invalid, or does not track, is forwarded neither from pods nor to
  them: it would pass all translation, and the guard of the routes to pods;
* nothing leaves the host under a private address, and nothing comes in from the underlay that is
  from or for one.
"""

# A packet's way: `raw` PREROUTING is before connection tracking and translation. `mangle` INPUT and
# FORWARD are behind the translation of destinations, `mangle` POSTROUTING is before that of
# sources, which is why a new connection may pass there under a private address, and only once: as
# soon as it is confirmed, its translation is settled.
#
# Answers (`--ctdir REPLY`) are not for a port of the management, whatever their number: the other
# side began the connection from there.

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from core.logs import fields
from netplugin.bridges.host.host_ports import InterfaceContext
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.kernel.firewall.families import each_family, raise_any
from netplugin.kernel.firewall.iptables import Chain, Iptables, IptablesRule
from netplugin.kernel.firewall.iptables_chains import Chains, OwnChains
from netplugin.world.bridges import port_names
from netplugin.world.bridges.management_ends import NOTHING, PROTOCOLS, ManagementEnds, Network
from ofnet.world import HOSTS_OWN6

log = logging.getLogger(__name__)

PREFIX: Final = "CONTIVGUARD-"
"""What the names of these chains begin with."""
ARRIVED: Final = f"{PREFIX}ARRIVED"
TO_HOST: Final = f"{PREFIX}TO-HOST"
FROM_PODS: Final = f"{PREFIX}FROM-PODS"
TO_PODS: Final = f"{PREFIX}TO-PODS"
MANAGEMENT: Final = f"{PREFIX}MANAGEMENT"
LEAVING: Final = f"{PREFIX}LEAVING"
TABLES: Final = ("raw", "mangle")

_MARK: Final = "contiv-guard"
_PORTS: Final = (port_names.HOST_PORT, port_names.VLAN_HOST_PORT)
_UNKNOWN: Final = "-m conntrack --ctstate INVALID,UNTRACKED -j DROP"
_ANSWERS: Final = "-m conntrack --ctdir REPLY -j RETURN"


def _chain(version: int, table: str, name: str) -> Chain:
    return Chain(table=table, name=name, version=version, mark=_MARK)


_PLACES: Final = (
    ("raw", "PREROUTING"),
    ("mangle", "INPUT"),
    ("mangle", "FORWARD"),
    ("mangle", "POSTROUTING"),
)
CHAINS: Final = tuple(_chain(version, *place) for version in (4, 6) for place in _PLACES)
"""The chains that lead to these."""


def chains(version: int, closed: ManagementEnds, private: Network, *, ours: bool = True) -> Chains:
    """Return the chains of a family, by table and name.

    `private` is where pods and hosts have addresses that mean nothing outside of their host. Unless
    it is `ours`, another program has it on this host, whose packets are none of the agent's.
    """
    ports = [
        f"-p {protocol} -m {protocol} --dport {port}"
        for protocol, number in PROTOCOLS.items()
        for port in sorted(one.port for one in closed.ports if one.protocol == number)
    ]
    arrived = [
        # by either port pods answer the address that stands for pods, which is a private one
        *(f"-i {link} -j RETURN" for link in ("lo", *_PORTS)),
        *(f"{end} {private} -j DROP" for end in ("-s", "-d")),
    ]
    leaving = [
        "-o lo -j RETURN",
        "-m conntrack --ctstate NEW ! --ctstatus CONFIRMED -j RETURN",
        "-m conntrack --ctstate SNAT -j RETURN",
        "-m conntrack --ctstate DNAT --ctdir REPLY -j RETURN",
        "-j DROP",
    ]
    addresses = sorted(str(one) for one in closed.addresses if one.version == version)
    return {
        "raw": {ARRIVED: arrived if ours else []},
        "mangle": {
            # All that comes in here is for this host: also broadcasts, at whatever address.
            TO_HOST: [_ANSWERS, *(f"{port} -j DROP" for port in ports)],
            MANAGEMENT: [f"-d {address} -j DROP" for address in addresses],
            FROM_PODS: [_UNKNOWN, _ANSWERS, *(f"{port} -j {MANAGEMENT}" for port in ports)],
            TO_PODS: [_UNKNOWN],
            LEAVING: leaving if ours else [],
        },
    }


def hooks(version: int, private: Network) -> list[IptablesRule]:
    """Return the rules that lead to the chains of a family."""
    leading: list[tuple[tuple[str, str], tuple[str, ...], str]] = [
        (("raw", "PREROUTING"), (), ARRIVED),
        *((("mangle", "INPUT"), ("-i", link), TO_HOST) for link in _PORTS),
        *((("mangle", "FORWARD"), ("-i", link), FROM_PODS) for link in _PORTS),
        *((("mangle", "FORWARD"), ("-o", link), TO_PODS) for link in _PORTS),
        (
            ("mangle", "POSTROUTING"),
            ("-s", str(private), "!", "-o", port_names.HOST_PORT),
            LEAVING,
        ),
    ]
    return [
        IptablesRule(chain=_chain(version, *place), match=match, target=("-j", target))
        for place, match, target in leading
    ]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the rules are made for: the private addresses of each family."""

    private: tuple[Network, ...] = ()
    closed: ManagementEnds = NOTHING
    ours: bool = False


class HostGuard:
    """Keeps the guard in the host's kernel. One per agent."""

    def __init__(self, context: InterfaceContext, iptables: Iptables, own: OwnChains) -> None:
        self._world = context.world
        self._records = context.records
        self._interval = context.interval
        self._firewall_lost = context.watches.firewall.lost
        self._iptables = iptables
        self._own = own
        self._set: set[int] = set()

    async def run(self) -> None:
        """Reconcile the rules, for ever."""
        await ReconcileLoop(
            name="host guard",
            converge=self.converge,
            observe=self._wanted,
            triggers=(
                self._records.management_changed,
                self._records.settings_changed,
                self._records.records_changed,
            ),
            interval=self._interval,
            anew=(self._firewall_lost,),
        ).run()

    async def converge(self) -> object:
        """Set all rules, once; return what they were made for. Raises HostError."""
        wanted = self._wanted()
        ranges = {int(private.version): private for private in wanted.private}

        async def keep(version: int) -> None:
            private = ranges.get(version)
            if private is not None:
                await self._own.replace(
                    version, chains(version, wanted.closed, private, ours=wanted.ours)
                )
            hooked = hooks(version, private) if private is not None else ()
            if await self._iptables.keep(hooked, (version,)):
                log.info("host guard set", extra=fields(count=len(wanted.closed.addresses)))
            if private is None:
                await self._own.remove(TABLES, (version,))

        # what was not set, and cannot be, is no failure: a host may have no IPv6
        failures = await each_family(keep, ranges.keys() | self._set)
        self._set = set(ranges)
        raise_any(failures)
        return wanted

    def _wanted(self) -> _Wanted:
        private = self._world.forwarding.private_subnet
        if private is None:
            return _Wanted()
        # The port is in the World once the host has its address and routes: before that they may
        # be another program's, docker's for one.
        ours = self._world.endpoints.host_port is not None
        return _Wanted((private, *self._private6()), self._world.management.closed, ours)

    def _private6(self) -> Iterator[Network]:
        if any(one.ipv6_subnet for one in self._world.networks.all()):
            yield HOSTS_OWN6
