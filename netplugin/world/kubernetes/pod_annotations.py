"""What a pod asks for by annotations: its addresses, and that they are kept for it. Pure.

`netplugin.world.kubernetes.kube_pods` reads a pod, `netplugin.kube.pods` puts what it asks for into
the request of its first interface; netmaster decides (ADR 46).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.errors import Invalid
from core.ids import OF_MACHINE

IP: Final = "io.contiv.ip"
IP6: Final = "io.contiv.ip6"
MAC: Final = "io.contiv.mac"
STICKY: Final = "io.contiv.sticky"
MACHINE_RUNS: Final = "kubevirt.io/migration-target-ready-timestamp"
"""Since when a machine of KubeVirt runs in the pod that it migrated to."""
ANNOTATIONS: Final = (IP, IP6, MAC, STICKY, MACHINE_RUNS)

MACHINES: Final = ("vm.kubevirt.io/name", "kubevirt.io/domain")
"""Labels of the pods of a machine of KubeVirt that name it, the newer one first."""
MIGRATION: Final = "kubevirt.io/migrationJobUID"
"""Label of a pod that a machine of KubeVirt migrates to, or has migrated to."""
RETURNING: Final = frozenset({"", "StatefulSet"})
"""The kinds of controllers whose pods come back under their names; "" is a pod without one."""

_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MULTICAST: Final = 0x01
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a pod asks for, None and "" where nothing; `keep` is whom its addresses are kept for.

    A pod that `awaits_machine` is the target of a live migration.
    """

    ipv4: IPv4Address | None = None
    ipv6: IPv6Address | None = None
    mac: str = ""
    keep: str = ""
    awaits_machine: bool = False


def wishes(
    pod: str, annotations: Mapping[str, str], labels: Mapping[str, str], controller: str
) -> Wishes:
    """Return what the annotations of a pod ask for; `pod` is `<namespace>/<name>`.

    `controller` is the kind of the object that made the pod. Raises Invalid for an annotation with
    another text than it may have, and for addresses that are to be kept for a name that never
    comes back.
    """

    def read(name: str) -> str:
        return annotations.get(name, "").strip()

    try:
        ipv4 = IPv4Address(read(IP)) if read(IP) else None
    except ValueError as exc:
        raise _wrong(pod, IP, read(IP), "an IPv4 address") from exc
    try:
        ipv6 = IPv6Address(read(IP6)) if read(IP6) else None
        if ipv6 is not None and ipv6.scope_id:
            raise ValueError(f"scope {ipv6.scope_id}")  # noqa: TRY301 - one refusal for both
    except ValueError as exc:
        raise _wrong(pod, IP6, read(IP6), "an IPv6 address") from exc
    mac = read(MAC).lower()
    if mac and (not _MAC.fullmatch(mac) or int(mac[:2], 16) & _MULTICAST):
        raise _wrong(pod, MAC, read(MAC), "a unicast MAC address")
    sticky = read(STICKY)
    if sticky not in {"", "true", "false"}:
        raise _wrong(pod, STICKY, sticky, "true or false")
    keep = _name(pod, labels, controller) if sticky == "true" else ""
    awaits_machine = keep.endswith(OF_MACHINE) and bool(labels.get(MIGRATION))
    return Wishes(ipv4, ipv6, mac, keep, awaits_machine)


def _name(pod: str, labels: Mapping[str, str], controller: str) -> str:
    """Return whom a pod's addresses are kept for."""
    machine = next((labels[label] for label in MACHINES if labels.get(label)), "")
    if machine:
        return f"{pod.partition('/')[0]}/{machine}{OF_MACHINE}"
    if controller not in RETURNING:
        raise Invalid(
            f"pod {pod}: annotation {STICKY}: a {controller[:_SHOWN]} makes pods under names that "
            "never come back, so nothing can be kept for them; use a StatefulSet"
        )
    return pod


def _wrong(pod: str, name: str, text: str, kind: str) -> Invalid:
    return Invalid(f"pod {pod}: annotation {name}: {text[:_SHOWN]!r} is not {kind}")
