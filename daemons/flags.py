"""The command line of both daemons: how flags are parsed, and their common flags.

The syntax is Go's (`core.go_flags`): `-flag` and `--flag` are the same, a switch is `--switch`,
`--switch=true` or `--switch true`, each flag has aliases and an environment variable
`CONTIV_<DAEMON>_<NAME>`; the command line takes precedence (docs/original/netmaster-daemon.md §1,
docs/original/netplugin-agent.md §1.1). Errors have the original's texts and exit with 22. The
flags of one daemon, and the meaning of the values, are in its `settings`.

The original had two generations of flags. A name of both has the later meaning; `--cluster-store`
belongs to the older one only and selects its profile (`Values.older`): mode docker by default,
forwarding mode from the global object. docs/flags.md lists all flags of both.
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core import logs
from core.errors import UsageError
from core.go_flags import Takes, scan
from core.logs import fields
from core.numbers import bounded
from core.patience import VARIABLE, factor_of
from core.version import BUILD_TIME, GIT_COMMIT

log = logging.getLogger(__name__)

MODES: Final = ("docker", "kubernetes", "swarm-mode", "test")
NETWORK_MODES: Final = ("vlan", "vxlan")
FORWARD_MODES: Final = ("bridge", "routing")
OLDER_MODE: Final = "docker"
KERNEL: Final = "kernel"
"""Value of the older generation's `-syslog` for the syslog of this host."""
_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})


class Generation(StrEnum):
    """Which generation of the original a flag comes from."""

    BOTH = "both"
    LATER = "later"
    OLDER = "older"
    OURS = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag: its names (the first is canonical), its variable's suffix, its default.

    The values of a repeatable flag are joined by commas. A dead flag is accepted and ignored.
    """

    names: tuple[str, ...]
    env: str
    help: str
    default: str = ""
    switch: bool = False
    repeatable: bool = False
    dead: bool = False
    generation: Generation = Generation.LATER


STORE: Final = (
    Flag(
        names=("etcd-endpoints", "etcd"),
        env="ETCD_ENDPOINTS",
        help="comma-delimited list of etcd endpoints (default: http://127.0.0.1:2379)",
    ),
    Flag(
        names=("consul-endpoints", "consul"),
        env="CONSUL_ENDPOINTS",
        help="comma-delimited list of consul endpoints",
    ),
    Flag(
        names=("cluster-store",),
        env="CLUSTER_STORE",
        help="the store as etcd://host:port or consul://host:port; selects the older defaults",
        generation=Generation.OLDER,
    ),
    Flag(
        names=("store-ca",),
        env="STORE_CA",
        help="file with the authorities' certificates that a store at https:// is checked by",
        generation=Generation.OURS,
    ),
    Flag(
        names=("store-cert",),
        env="STORE_CERT",
        help="file with our own certificate, for a store that asks for one",
        generation=Generation.OURS,
    ),
    Flag(
        names=("store-key",),
        env="STORE_KEY",
        help="file with the key of our own certificate",
        generation=Generation.OURS,
    ),
    Flag(
        names=("store-user",),
        env="STORE_USER",
        help="user of the store",
        generation=Generation.OURS,
    ),
    Flag(
        names=("store-password-file",),
        env="STORE_PASSWORD_FILE",
        help="file with the user's password",
        generation=Generation.OURS,
    ),
)
"""The store's address and credentials. A password is read from a file: any local user can read
a command line."""

COMMON: Final = (
    Flag(
        names=("mode", "plugin-mode", "cluster-mode"),
        env="MODE",
        help="orchestrator: docker, kubernetes, swarm-mode",
        generation=Generation.BOTH,
    ),
    Flag(names=("netmode", "network-mode"), env="NET_MODE", help="network mode: vlan, vxlan"),
    Flag(
        names=("fwdmode", "forward-mode"),
        env="FORWARD_MODE",
        help="forwarding mode: bridge, routing",
    ),
    *STORE,
    Flag(names=("log-level",), env="LOG_LEVEL", help="DEBUG, INFO, WARN or ERROR", default="INFO"),
    Flag(
        names=("use-json-log", "json-log"),
        env="USE_JSON_LOG",
        help="log JSON objects",
        switch=True,
        generation=Generation.BOTH,
    ),
    Flag(
        names=("use-syslog", "syslog"),
        env="USE_SYSLOG",
        help="log to syslog; beside --cluster-store also its protocol://ip:port, or `kernel`",
        switch=True,
        generation=Generation.BOTH,
    ),
    Flag(
        names=("syslog-url",),
        env="SYSLOG_URL",
        help="where syslog listens, as protocol://ip:port",
        default="udp://127.0.0.1:514",
    ),
    Flag(
        names=("trace-endpoint",),
        env="TRACE_ENDPOINT",
        help="send traces to this collector of OpenTelemetry, as http://host:4318/v1/traces",
        generation=Generation.OURS,
    ),
    Flag(
        names=("debug",),
        env="DEBUG",
        help="the same as --log-level=DEBUG",
        switch=True,
        generation=Generation.OLDER,
    ),
)


HELP: Final = Flag(names=("help", "h"), env="", help="show help", switch=True)
SHOW_VERSION: Final = Flag(names=("version", "v"), env="", help="print version", switch=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """The three modes, checked."""

    mode: str
    net_mode: str
    fwd_mode: str


class Values:
    """Flag values: from the command line, else the environment, else the default.

    `dead` holds the names of ignored flags that were given.
    """

    def __init__(self, daemon: str, values: Mapping[str, str], dead: Sequence[str] = ()) -> None:
        self.daemon = daemon
        self.dead = dead
        self._values = values

    @property
    def older(self) -> bool:
        """Return whether the older generation's profile is selected."""
        return bool(self._values["cluster-store"])

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def on(self, name: str) -> bool:
        """Return a boolean flag. Raises UsageError for any other text."""
        text = self._values[name].lower()
        if text in _TRUE:
            return True
        if text in _FALSE or not text:
            return False
        raise UsageError(f'invalid boolean value "{text}" for flag --{name}')

    def number(self, name: str, lowest: int, highest: int) -> int:
        """Return a whole number. Raises UsageError outside lowest..highest."""
        text = self._values[name]
        number = bounded(text, lowest, highest)
        if number is None:
            raise UsageError(
                f"{self.daemon} {name} is an integer between {lowest}-{highest}, got {text[:80]!r}"
            )
        return number


def read(
    daemon: str,
    flags: Sequence[Flag],
    arguments: Sequence[str],
    environ: Mapping[str, str],
    version: str,
    *,
    command: str = "",
    commands: Mapping[str, str] = MappingProxyType({}),
) -> Values | None:
    """Return the values of `flags`; None after printing help or version.

    `command` is the word before these flags, if one is. `commands` are named in the help, each with
    what it does.

    Raises UsageError for an invalid command line.
    """
    given = _given(flags, arguments)
    if HELP in given:
        sys.stdout.write(_help(daemon, flags, command, commands))
        return None
    if SHOW_VERSION in given:
        print_version(daemon, version)
        return None
    try:
        factor_of(environ.get(VARIABLE))
    except ValueError as exc:
        raise UsageError(str(exc)) from exc
    values = {}
    for flag in flags:
        variable = environ.get(_variable(daemon, flag))
        values[flag.names[0]] = given.get(flag, variable or flag.default)
    dead = [flag.names[0] for flag in flags if flag.dead and values[flag.names[0]]]
    return Values(daemon, values, dead)


def print_version(daemon: str, version: str) -> None:
    """Print the original's version block."""
    built = f"GitCommit: {GIT_COMMIT}\nBuildTime: {BUILD_TIME}\n"
    sys.stdout.write(f"{daemon} version \nVersion: {version}\n{built}\n")


def set_up_logs(values: Values, environ: Mapping[str, str] | None = None) -> None:
    """Configure logging as flags and environment say; warn of ignored flags. Raises UsageError."""
    logs.setup(
        level="DEBUG" if values.on("debug") else values["log-level"],
        as_json=values.on("use-json-log"),
        syslog_url=_syslog_url(values),
        journal=(environ or {}).get(logs.JOURNAL_STREAM, ""),
    )
    for name in values.dead:
        log.warning("flag has no effect any more", extra=fields(flag=name))


def _syslog_url(values: Values) -> str | None:
    # The older `-syslog` takes a URL or `kernel`, the later `--use-syslog` is a boolean.
    value = values["use-syslog"]
    if values.older and ("://" in value or value == KERNEL):
        return values["syslog-url"] if value == KERNEL else value
    return values["syslog-url"] if values.on("use-syslog") else None


def network_options(values: Values) -> NetworkOptions:
    """Return the three modes, checked in the original's order. Raises UsageError.

    In the older profile network and forwarding mode may be "": the global object has them.
    """
    daemon = values.daemon
    if values.older:
        return _older_options(values)
    mode = _choice(daemon, "mode", values["mode"].lower(), MODES)
    net_mode = _choice(daemon, "network mode", values["netmode"].lower(), NETWORK_MODES)
    fwd_mode = _choice(daemon, "forwarding mode", values["fwdmode"].lower(), FORWARD_MODES)
    if (net_mode, fwd_mode) == ("vxlan", "bridge"):
        raise UsageError(
            f'invalid {daemon} forwarding mode: "{fwd_mode}" (network mode: "{net_mode}")'
        )
    return NetworkOptions(mode=mode, net_mode=net_mode, fwd_mode=fwd_mode)


def _older_options(values: Values) -> NetworkOptions:
    daemon = values.daemon
    mode = _choice(daemon, "mode", values["mode"].lower() or OLDER_MODE, MODES)
    net_mode, fwd_mode = values["netmode"].lower(), values["fwdmode"].lower()
    if net_mode:
        _choice(daemon, "network mode", net_mode, NETWORK_MODES)
    if fwd_mode:
        _choice(daemon, "forwarding mode", fwd_mode, FORWARD_MODES)
    return NetworkOptions(mode=mode, net_mode=net_mode, fwd_mode=fwd_mode)


def _given(flags: Sequence[Flag], arguments: Sequence[str]) -> Mapping[Flag, str]:
    named = {name: flag for flag in (*flags, HELP, SHOW_VERSION) for name in flag.names}
    found = scan(arguments, named, _takes)
    if found.unknown or found.rest:
        raise UsageError(f"Incorrect Usage. unknown argument: {found.unknown or found.rest[0]}")
    if found.unfinished is not None:
        raise UsageError(f"Incorrect Usage. flag needs an argument: --{found.unfinished.names[0]}")
    given: dict[Flag, str] = {}
    for flag, value in found.flags:
        given[flag] = f"{given[flag]},{value}" if flag.repeatable and flag in given else value
    return given


def _takes(flag: Flag) -> Takes:
    if flag in (HELP, SHOW_VERSION):
        return Takes.NOTHING
    return Takes.OPTIONAL if flag.switch else Takes.VALUE


def _help(daemon: str, flags: Sequence[Flag], command: str, commands: Mapping[str, str]) -> str:
    lines = [f"usage: {f'{daemon} {command}'.rstrip()} [flags]", "", "flags, by one dash or two:"]
    for flag in flags:
        names = ", ".join(f"--{name}" for name in flag.names)
        default = f" (default: {flag.default})" if flag.default else ""
        lines.append(f"  {names} {'[value]' if flag.switch else 'value'}")
        lines.append(f"        {flag.help}{default} [${_variable(daemon, flag)}]")
    for flag in (HELP, SHOW_VERSION):
        lines.append(f"  {', '.join(f'--{name}' for name in flag.names)}")
        lines.append(f"        {flag.help}")
    if commands:
        lines += ["", "commands:"]
        lines += [f"  {daemon} {name}: {what}" for name, what in commands.items()]
    return "\n".join(lines) + "\n"


def _variable(daemon: str, flag: Flag) -> str:
    return f"CONTIV_{daemon.upper()}_{flag.env}"


def _choice(daemon: str, setting: str, value: str, allowed: tuple[str, ...]) -> str:
    if not value:
        raise UsageError(f"{daemon} {setting} is not set")
    if value not in allowed:
        raise UsageError(f"unknown {daemon} {setting}: {value}")
    return value
