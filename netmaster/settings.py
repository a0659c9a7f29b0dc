"""The settings of the daemon, checked in the original's order.

In come the values that `daemons.flags` read; out comes a valid `MasterSettings`, or a
UsageError with the original's text (docs/original/netmaster-daemon.md §1). Does no I/O: the host's
own address is an argument.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from core.errors import UsageError
from core.numbers import bounded
from core.patience import patient
from daemons import browsers, flags
from daemons.certificates import tls
from daemons.certificates.tls import TlsFiles
from daemons.flags import Flag, Generation, Values
from daemons.listen_address import ANY_ADDRESS, ListenAddress, split
from objdb.connect import StoreAddress, store_of

INFRA_TYPES: Final = ("aci", "default")
ANY_HOST: Final = ("", ANY_ADDRESS, "::")
OLDER_CONTROL: Final = ":9999"
"""The older generation's default: the host's address with the port of the listen URL."""
LONGEST_ABSENCE: Final = 10 * 365 * 86400
LONGEST_KEPT: Final = 30 * 86400
SHORTEST_LEASE: Final = 2
"""Seconds; etcd grants no shorter lease."""

FLAGS: Final = (
    *flags.COMMON,
    *tls.FLAGS,
    Flag(
        names=("external-address", "listen-url"),
        env="EXTERNAL_ADDRESS",
        help="where the API is served",
        default="0.0.0.0:9999",
        generation=Generation.BOTH,
    ),
    Flag(
        names=("internal-address", "control-url"),
        env="INTERNAL_ADDRESS",
        help="where other masters and agents find this one (default: <host ip>:<external port>)",
        generation=Generation.BOTH,
    ),
    Flag(names=("infra", "infra-type"), env="INFRA", help="aci or default", default="default"),
    Flag(
        names=("name", "plugin-name"),
        env="PLUGIN_NAME",
        help="name of the docker v2 plugin: the driver of networks and of their addresses",
        default="netplugin",
        generation=Generation.BOTH,
    ),
    Flag(
        names=("ofnet-port",),
        env="OFNET_PORT",
        help="port of the ofnet RPC at the internal address, 0 for any",
        default="9001",
        generation=Generation.OURS,
    ),
    Flag(
        names=("aci-gateway",),
        env="ACI_GATEWAY",
        help="URL of the ACI gateway, asked where the fabric is ACI",
        default="http://localhost:5000",
        generation=Generation.OURS,
    ),
    Flag(
        names=("docker-socket",),
        env="DOCKER_SOCKET",
        help="docker's socket, told of networks in mode docker",
        default="/var/run/docker.sock",
        generation=Generation.OURS,
    ),
    Flag(
        names=("lease-ttl",),
        env="LEASE_TTL",
        help="seconds after which a dead leader loses the lock",
        default=f"{patient(2):.0f}",
        generation=Generation.OURS,
    ),
    Flag(
        names=("dead-host-after",),
        env="DEAD_HOST_AFTER",
        help="seconds without its agent after which a host's endpoints are given up, 0 for never",
        default="86400",
        generation=Generation.OURS,
    ),
    Flag(
        names=("store-history",),
        env="STORE_HISTORY",
        help="seconds of etcd's history that the leader keeps, compacting the rest; 0 for all",
        default="600",
        generation=Generation.OURS,
    ),
    Flag(
        names=("address-cooldown",),
        env="ADDRESS_COOLDOWN",
        help="seconds before a released address is granted again, unless no other is free",
        default="30",
        generation=Generation.OURS,
    ),
    Flag(
        names=("sticky-for",),
        env="STICKY_FOR",
        help="seconds for which an address is kept for a pod or machine that is away",
        default="86400",
        generation=Generation.OURS,
    ),
    Flag(
        names=("trusted-origins",),
        env="TRUSTED_ORIGINS",
        help="comma-delimited origins (https://tools.example.com) whose pages may use the API in "
        "a browser, beside this server's own",
        generation=Generation.OURS,
    ),
    Flag(
        names=("dns-enable",),
        env="DNS_ENABLE",
        help="accepted; agents answer names themselves",
        switch=True,
        dead=True,
        generation=Generation.OLDER,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterSettings:
    """The settings of the daemon.

    `internal` is where other masters and the agents reach this one; its host is never empty or
    0.0.0.0.
    """

    mode: str
    net_mode: str
    fwd_mode: str
    """Empty if the global object alone decides."""
    store: StoreAddress
    external: ListenAddress
    internal: ListenAddress
    infra: str
    plugin_name: str
    ofnet_port: int
    aci_gateway: str
    docker_socket: str
    lease_ttl: int
    dead_host_after: int
    store_history: int
    address_cooldown: int
    sticky_for: int
    tls: TlsFiles = field(default_factory=TlsFiles)
    """None of them: REST and RPC are plain."""
    trusted_origins: frozenset[str] = frozenset()
    """Pages of these may use REST in a browser, beside its own."""

    @property
    def single_listener(self) -> bool:
        """Return whether the external listener covers the internal address as well."""
        named = self.external.host
        every = named in ANY_HOST and (":" in named) == (":" in self.internal.host)
        covered = every or named == self.internal.host
        return covered and self.external.port == self.internal.port


def resolve(values: Values, host_address: Callable[[], str]) -> MasterSettings:
    """Return the settings, or raise UsageError for the first flag that is wrong.

    `host_address` returns the host's default address; it is called only if the internal address
    has no host.
    """
    modes = flags.network_options(values)
    store = store_of(values)
    if not values["external-address"]:
        raise UsageError("netmaster external-address is not set")
    external, internal = (
        older_addresses(values["external-address"], values["internal-address"], host_address)
        if values.older
        else _addresses(values, host_address)
    )
    infra = values["infra"].lower()
    if infra not in INFRA_TYPES:
        raise UsageError(f"Unknown netmaster infra type: {infra}")
    return MasterSettings(
        mode=modes.mode,
        net_mode=modes.net_mode,
        fwd_mode=modes.fwd_mode,
        store=store,
        external=external,
        internal=internal,
        infra=infra,
        plugin_name=values["name"],
        ofnet_port=values.number("ofnet-port", 0, 65535),
        aci_gateway=values["aci-gateway"],
        docker_socket=values["docker-socket"],
        lease_ttl=values.number("lease-ttl", SHORTEST_LEASE, 3600),
        dead_host_after=values.number("dead-host-after", 0, LONGEST_ABSENCE),
        store_history=values.number("store-history", 0, 1_000_000),
        tls=tls.tls_files(values),
        address_cooldown=values.number("address-cooldown", 0, 86_400),
        sticky_for=values.number("sticky-for", 10, LONGEST_KEPT),
        trusted_origins=_origins(values["trusted-origins"]),
    )


def _origins(text: str) -> frozenset[str]:
    try:
        return browsers.origins_of(text)
    except ValueError as exc:
        raise UsageError(f"--trusted-origins: {exc}") from exc


def older_addresses(
    listen: str, control: str, host_address: Callable[[], str]
) -> tuple[ListenAddress, ListenAddress]:
    """Return external and internal address by the older generation's rules, with its texts."""
    external = _older_address("Listen URL", "[IP]:Port", listen)
    wanted = control or OLDER_CONTROL
    internal = _older_address("Control URL", "IP:Port", wanted)
    if internal.host == ANY_ADDRESS or (not internal.host and wanted != OLDER_CONTROL):
        raise UsageError("Control URL not in proper format. Valid format: IP:Port")
    if internal.host:
        return external, internal
    named = external.port == internal.port and external.host not in ANY_HOST
    return external, ListenAddress(external.host if named else host_address(), external.port)


def _older_address(what: str, form: str, text: str) -> ListenAddress:
    host, colon, port = text.partition(":")
    if not colon or ":" in port:
        raise UsageError(f"{what} not in proper format. Valid format: {form}")
    number = bounded(port, 0, 65535)
    if number is None:
        raise UsageError(
            f"{what} port not in valid format. "
            f"Err: strconv.Atoi: parsing {json.dumps(port)}: invalid syntax"
        )
    return ListenAddress(host, number)


def _addresses(
    values: Values, host_address: Callable[[], str]
) -> tuple[ListenAddress, ListenAddress]:
    external = _address(values["external-address"])
    return external, _internal(values["internal-address"], external.port, host_address)


def _internal(text: str, external_port: int, host_address: Callable[[], str]) -> ListenAddress:
    if not text:
        return ListenAddress(host_address(), external_port)
    address = _address(text)
    return ListenAddress(host_address(), address.port) if address.host in ANY_HOST else address


def _address(text: str) -> ListenAddress:
    found = split(text)
    if found is None:
        raise UsageError(f"bind address is not in 'ip:port' format, got {text}")
    host, port = found
    number = bounded(port, 0, 65535)
    if number is None:
        raise UsageError(f"bind port is a integer between 1-65535, got {port}")
    return ListenAddress(host, number)
