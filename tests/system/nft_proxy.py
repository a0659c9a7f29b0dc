"""The rules of a kube-proxy of mode nftables for services with one target. Pure.

In come services, as the API server tells of them, and their target; out comes a table for `nft`. It
has what kube-proxy of 1.29 and later has on a packet's way: the hooks and priorities of its base
chains, dispatch by maps, masquerading by a mark, and the rules of both traffic policies. It has no
affinity, and no refusals. Must not know who runs beside.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.system.service_ways import TARGET

TABLE = "kube-proxy"
FAMILIES = {4: "ip", 6: "ip6"}
_LOOPBACK = {4: "127.0.0.0/8", 6: "::1"}
_BASE = """\
  chain nat-prerouting {{ type nat hook prerouting priority dstnat; jump services; }}
  chain nat-output {{ type nat hook output priority -100; jump services; }}
  chain nat-postrouting {{ type nat hook postrouting priority srcnat; jump masquerading; }}
  chain filter-input {{
    type filter hook input priority -110
    ct state new jump endpoints-check
  }}
  chain filter-forward {{
    type filter hook forward priority -110
    ct state new jump endpoints-check
  }}
  chain filter-output {{
    type filter hook output priority -110
    ct state new jump endpoints-check
  }}
  map service-ips {{ type {address} . inet_proto . inet_service : verdict; }}
  map service-nodeports {{ type inet_proto . inet_service : verdict; }}
  map no-endpoint-nodeports {{ type inet_proto . inet_service : verdict; }}
  chain mark-for-masquerade {{ mark set mark or {mark}; }}
  chain masquerading {{
    mark and {mark} == 0 return
    mark set mark xor {mark}
    masquerade fully-random
  }}
  chain endpoints-check {{
    {of_node} meta l4proto . th dport vmap @no-endpoint-nodeports
  }}
  chain services {{
    {ip} daddr . meta l4proto . th dport vmap @service-ips
    {of_node} meta l4proto . th dport vmap @service-nodeports
  }}"""


def table(
    services: Iterable[Mapping[str, Any]],
    version: int,
    target: str,
    *,
    here: bool,
    cidr: str,
    mark: str,
) -> str:
    """Return the table; `here` tells whether the target is on this host, `cidr` where pods are."""
    ip = FAMILIES[version]
    words = {
        "ip": ip,
        "address": f"ipv{version}_addr",
        "of_node": f"fib daddr type local {ip} daddr != {_LOOPBACK[version]}",
        "mark": mark,
    }
    lines = [f"table {ip} {TABLE} {{", _BASE.format(**words)]
    elements: list[str] = []
    for service in services:
        for port in service["spec"]["ports"]:
            one = _Port(service, port, ip, target, here=here, cidr=cidr)
            lines += one.chains()
            elements += one.elements()
    lines.append("}")
    return "\n".join([*lines, *elements]) + "\n"


class _Port:
    """One port of a service."""

    def __init__(
        self,
        service: Mapping[str, Any],
        port: Mapping[str, Any],
        ip: str,
        target: str,
        *,
        here: bool,
        cidr: str,
    ) -> None:
        self._spec, self._port, self._ip, self._target = service["spec"], port, ip, target
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
        self._outside = [*self._spec.get("externalIPs", ()), *(one["ip"] for one in ingress)]
        self._local = self._spec.get("externalTrafficPolicy") == "Local"
        self._here, self._cidr = here, cidr
        self._protocol = port["protocol"].lower()
        self._name = f"{port['nodePort']}/{self._protocol}"

    def chains(self) -> Iterator[str]:
        """Yield the chains of the port."""
        at = f"[{self._target}]" if self._ip == "ip6" else self._target
        yield f"  chain endpoint-{self._name} {{"
        yield f"    {self._ip} saddr {self._target} jump mark-for-masquerade"
        yield f"    meta l4proto {self._protocol} dnat to {at}:{TARGET}"
        yield "  }"
        yield f"  chain service-{self._name} {{"
        if self._cidr:
            address = self._spec["clusterIP"]
            to = f"{self._ip} daddr {address} {self._protocol} dport {self._port['port']}"
            yield f"    {to} {self._ip} saddr != {self._cidr} jump mark-for-masquerade"
        yield f"    numgen random mod 1 vmap {{ 0 : goto endpoint-{self._name} }}"
        yield "  }"
        yield f"  chain external-{self._name} {{"
        yield from (f"    {rule}" for rule in self._from_outside())
        yield "  }"

    def _from_outside(self) -> Iterator[str]:
        onward = f"goto service-{self._name}"
        if not self._local:
            yield "jump mark-for-masquerade"
            yield onward
            return
        if self._cidr:
            yield f"{self._ip} saddr {self._cidr} {onward}"
        yield "fib saddr type local jump mark-for-masquerade"
        yield f"fib saddr type local {onward}"
        if self._here:
            yield f"goto endpoint-{self._name}"

    def elements(self) -> Iterator[str]:
        """Yield what leads to the chains."""
        number, node_port = self._port["port"], self._port["nodePort"]
        led = [(self._spec["clusterIP"], "service")]
        led += [(address, "external") for address in self._outside]
        for address, chain in led:
            key = f"{address} . {self._protocol} . {number}"
            yield self._element("service-ips", key, f"goto {chain}-{self._name}")
        key = f"{self._protocol} . {node_port}"
        yield self._element("service-nodeports", key, f"goto external-{self._name}")
        if self._local and not self._here:
            yield self._element("no-endpoint-nodeports", key, "drop")

    def _element(self, name: str, key: str, verdict: str) -> str:
        return f"add element {self._ip} {TABLE} {name} {{ {key} : {verdict} }}"
