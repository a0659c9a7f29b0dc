"""`netplugin preflight`: checks whether this host can run an agent, with a remedy for each fault.

It takes the agent's own flags and changes nothing. Each check is a small function, here, in
`netplugin.commands.store_checks`, `netplugin.commands.docker_checks`,
`netplugin.commands.firewall_checks` or `netplugin.commands.underlay_checks`; its result is a
`netplugin.commands.findings.Finding`. A fault makes the command exit with 1; a note does not.
"""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from core.errors import HostError, UsageError
from core.net.unix_socket import is_served
from core.patience import patient
from core.version import VERSION
from daemons import flags
from daemons.host_address import default_host_address
from daemons.listen_address import ANY_ADDRESS
from daemons.waiting import waiting
from netplugin import settings
from netplugin.bridges import megaflow_purge
from netplugin.bridges.host import host_access
from netplugin.bridges.openflow_listeners import LOOPBACK
from netplugin.bridges.uplink.nics import check_cards
from netplugin.bridges.uplink.uplinks import attached_cards
from netplugin.commands import docker_checks, firewall_checks, store_checks, underlay_checks
from netplugin.commands.findings import Check, Finding, Note, finding
from netplugin.commands.switch_state import read_once, switch_state
from netplugin.kernel.firewall import iptables, nft_tables
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes import router_advertisements
from netplugin.kube import config
from netplugin.kube.api import KubeApi, KubeTiming
from netplugin.kube.discovery import access_of
from netplugin.kube.resources import NAMESPACES, SERVICES, SLICES, pods_of
from netplugin.ovsdb.control_socket import ControlSocket, rundir_of
from netplugin.pods.mtu import underlay_of
from netplugin.settings import SMALLEST_MTU, AgentSettings
from ofnet.world import Bridge, FwdMode

NAME: Final = "preflight"
KUBE_WAIT: Final = patient(5.0)
"""Seconds for a connection to an API server, and for its answer."""

_CAPABILITIES: Final = {"NET_ADMIN": 12, "NET_RAW": 13, "SYS_ADMIN": 21}
"""By their bits: links and routes, packets of every kind, pods' namespaces (capability.h)."""


Checks = Mapping[str, tuple[Check, str]]
"""Subject -> check and remedy."""


def run(arguments: Sequence[str], environ: Mapping[str, str], checks: Checks | None = None) -> None:
    """Check this host and print the findings, of `CHECKS` by default.

    Raises HostError for a fault.
    """
    values = flags.read("netplugin", settings.FLAGS, arguments, environ, VERSION, command=NAME)
    if values is None:
        return
    try:
        wanted = settings.resolve(values, default_host_address)
    except UsageError as exc:
        raise UsageError(
            f"{exc}: {NAME} takes the agent's flags, or the settings of its service by "
            f"(set -a; . /etc/default/netplugin; netplugin {NAME})"
        ) from exc
    with waiting():
        findings = asyncio.run(findings_of(wanted, CHECKS if checks is None else checks))
    sys.stdout.write("".join(f"{one}\n" for one in findings))
    lacking = sum(one.lacking for one in findings)
    if lacking:
        raise HostError(f"this host lacks {lacking} of {len(findings)} things an agent needs")


async def findings_of(wanted: AgentSettings, checks: Checks) -> list[Finding]:
    """Return the findings of all checks, in order."""
    looks = (finding(subject, *check, wanted) for subject, check in checks.items())
    with read_once():
        return await asyncio.gather(*looks)


async def _rights(_wanted: AgentSettings) -> str:
    held = _effective_capabilities()
    lacking = [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
    if lacking:
        raise HostError("no right to " + ", ".join(lacking))
    return "may change links, namespaces and send raw packets"


def _effective_capabilities() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


async def _switch(wanted: AgentSettings) -> str:
    bridges = sorted((await switch_state(wanted)).ports)
    return f"database at {wanted.ovsdb}, bridges: {', '.join(bridges) or 'none'}"


async def _datapath(wanted: AgentSettings) -> str:
    with closing(KernelLinks()) as links:
        if await links.has_kernel_datapath():
            return "the kernel's"
        holders = {one: await links.holder(one) for one in wanted.vtep_ips}
    ports = (await switch_state(wanted)).ports
    for address, holder in holders.items():
        if holder not in ports:
            raise HostError(f"userspace's, and {address} is on {holder}, which is no bridge")
    return f"userspace's, tunnels leave by bridge {' and '.join(sorted(set(holders.values())))}"


async def _release(wanted: AgentSettings) -> str | Note:
    version = (await ControlSocket(rundir_of(wanted.ovsdb)).call("version")).partition("\n")[0]
    with closing(KernelLinks()) as links:
        if not await links.has_kernel_datapath() and megaflow_purge.is_affected(version):
            return Note(f"{version} may keep wrong megaflows: the agent purges them as it goes")
    return version


async def _links(wanted: AgentSettings) -> str:
    with closing(KernelLinks()) as links:
        underlay = await underlay_of(links, wanted.vtep_ips, wanted.uplinks)
    carried = underlay.carries(Bridge.VXLAN)
    if carried < (wanted.mtu or SMALLEST_MTU):
        raise HostError(
            f"the link of {_named(wanted)} has an MTU of {underlay.tunnels}, pods would have "
            f"{carried}: {underlay.overhead} are the tunnel's"
        )
    if wanted.uplinks and underlay.carries(Bridge.VLAN) < (wanted.mtu or SMALLEST_MTU):
        raise HostError(f"the uplinks carry {underlay.carries(Bridge.VLAN)}")
    return f"tunnels from {_named(wanted)}, pods' MTU {wanted.mtu or carried}"


def _named(wanted: AgentSettings) -> str:
    return " and ".join(map(str, wanted.vtep_ips))


async def _uplinks(wanted: AgentSettings) -> str:
    with closing(KernelLinks()) as links:
        cards = await links.cards(wanted.uplinks)
    check_cards(cards, attached_cards((await switch_state(wanted)).ports.get(Bridge.VLAN, ())))
    return ", ".join(card.name for card in cards) or "none"


async def _programs(_wanted: AgentSettings) -> str:
    found = shutil.which(iptables.PROGRAM) or shutil.which(nft_tables.PROGRAM)
    if found is None:
        raise HostError(
            f"neither {iptables.PROGRAM} nor {nft_tables.PROGRAM}: pods cannot leave the host "
            "under its address"
        )
    await iptables.rules(host_access.POSTROUTING)  # fails if the program does not work
    return found


async def _forwarding(wanted: AgentSettings) -> str | Note:
    if not host_access.forwards():
        pods = "pods on networks without a gateway" if _bridges(wanted) else "pods"
        fault = f"net.ipv4.ip_forward is 0: {pods} cannot reach addresses outside the cluster"
        if _bridges(wanted):
            return Note(fault)
        raise HostError(fault)
    six = host_access.FORWARDING6
    if not six.exists() or not host_access.forwards(six):
        # networks that have IPv6 need it, and there may be none
        return "this host forwards packets, but not those of IPv6 (net.ipv6.conf.all.forwarding)"
    unheard = host_access.unheard_advertisements(router_advertisements.needing())
    return Note(unheard) if unheard else "this host forwards packets"


def _bridges(wanted: AgentSettings) -> bool:
    """Return whether pods reach their gateways without this host (forwarding mode bridge)."""
    return wanted.fwd_mode is FwdMode.BRIDGE


async def _kubernetes(wanted: AgentSettings) -> str:
    if wanted.k8s_config is None:
        return f"not asked for in mode {wanted.mode}"
    found = config.load(wanted.k8s_config)
    access = access_of(found, os.environ)
    if access is None:
        return f"no API server named: {wanted.k8s_config} has no K8S_API_SERVER, and this is no pod"
    api = KubeApi(access, KubeTiming(connect=KUBE_WAIT, answer=KUBE_WAIT))
    followed = (SERVICES, SLICES, NAMESPACES, pods_of(found.node_name(os.environ)))
    server = [await api.probe(resource) for resource in followed][-1]
    subnet = f"services in {found.services}" if found.services else "no subnet of services"
    return f"{server} answers {access.identity}, {subnet}"


async def _ports(wanted: AgentSettings) -> str:
    held = is_served(wanted.cni_socket)
    if held and _is_taken(wanted.rest.host, wanted.rest.port):
        return f"an agent runs already, at {wanted.cni_socket}"
    places = {
        (LOOPBACK, wanted.vxlan_openflow_port): "--vxlan-openflow-port",
        (LOOPBACK, wanted.vlan_openflow_port): "--vlan-openflow-port",
        (ANY_ADDRESS, wanted.vxlan_rpc_port): "--vxlan-rpc-port",
        (ANY_ADDRESS, wanted.vlan_rpc_port): "--vlan-rpc-port",
        (wanted.rest.host, wanted.rest.port): "--rest-address",
    }
    ports = {(host, port): flag for (host, port), flag in places.items() if port is not None}
    taken = [f"{port} ({flag})" for (host, port), flag in ports.items() if _is_taken(host, port)]
    if taken:
        raise HostError(f"TCP ports in use: {', '.join(taken)}")
    free = ", ".join(str(port) for _, port in ports) + " are free"
    # netplugin.socket: calls wait there, and the first of them starts the agent
    return f"{free}, the service manager listens at {wanted.cni_socket}" if held else free


def _is_taken(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


async def _directories(wanted: AgentSettings) -> str:
    places = {wanted.journal, wanted.cni_socket.parent}
    if None in {wanted.vxlan_openflow_port, wanted.vlan_openflow_port}:
        places.add(rundir_of(wanted.ovsdb))
    for path in sorted(places):
        there = next(place for place in (path, *path.parents) if place.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise HostError(f"{path} cannot be made: {there} cannot be written")
    return ", ".join(map(str, sorted(places)))


CHECKS: Final[Checks] = {
    "rights": (_rights, "run as root, or give the unit AmbientCapabilities of these"),
    "Open vSwitch": (
        _switch,
        "apt install openvswitch-switch; systemctl start openvswitch-switch; --ovsdb names another",
    ),
    "datapath": (
        _datapath,
        "put the address of --vtep-ip on a bridge, or modprobe openvswitch for the kernel's",
    ),
    "neighbours": (underlay_checks.neighbours, underlay_checks.ARP_REMEDY),
    "release": (_release, megaflow_purge.UPGRADE),
    "store": (
        store_checks.store,
        "start it, name it with --etcd or --consul, or give this host another --host",
    ),
    "certificates": (
        store_checks.certificates,
        "issue the store's CA anew, with keyUsage = critical, keyCertSign and subjectKeyIdentifier",
    ),
    "versions": (store_checks.versions, store_checks.VERSIONS),
    "links": (_links, "--vtep-ip names an address of this host, --mtu the pods' MTU"),
    "uplinks": (_uplinks, "--vlan-uplinks names cards of this host that it does not live on"),
    "programs": (_programs, "apt install iptables, or nftables"),
    "forwarding": (
        _forwarding,
        "sysctl net.ipv4.ip_forward=1, also after a reboot",
    ),
    "firewall": (firewall_checks.firewall, firewall_checks.REMEDY),
    "private network": (
        store_checks.private_network,
        "netctl global set --private-subnet names another /16, or take that route away",
    ),
    "paths": (store_checks.paths, "raise the MTU of what lies between, or give all agents --mtu"),
    "Kubernetes": (_kubernetes, "mend what it says, or the file that --k8s-config names"),
    "docker": (docker_checks.engine, docker_checks.REMEDY),
    "ports": (_ports, "end what uses them, or choose others with the flags named"),
    "directories": (_directories, "choose others with --data-dir and --run-dir"),
}
