"""Open vSwitch's own trace of a packet (`ovs-appctl ofproto/trace`), as a `Verdict`.

The packet is written as a flow; the answer's "Datapath actions" are applied to it one by one, and
its "Final flow" has the metadata and the tunnel id, which no frame carries.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ovs.unixctl.client import UnixctlClient

from ofnet.flows import Flow
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_NORMAL
from ofnet.trace.evaluator import PacketFields, Sent, Value
from ofnet.trace.switch import text
from tests.bed.ovs import OvsHost
from tests.model.switch import Verdict

_ACTION: Final = re.compile(r"(\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?(?:,|$)")
_TRACKING: Final = re.compile(r",?(ct\([^()]*\)|recirc\(0x[0-9a-f]+\))")
_SETTING: Final = re.compile(r"(\w+)\((.*)\)")


def _hexadecimal(text: str) -> int:
    return int(text.partition("/")[0], 0)


def _dscp(text: str) -> int:
    return _hexadecimal(text) >> 2


_WRITTEN: Final[Mapping[str, tuple[str, Callable[[str], Value]]]] = {
    "eth.src": ("eth_src", str),
    "eth.dst": ("eth_dst", str),
    "ipv4.src": ("ipv4_src", IPv4Address),
    "ipv4.dst": ("ipv4_dst", IPv4Address),
    "ipv4.tos": ("ip_dscp", _dscp),
    "ipv6.src": ("ipv6_src", IPv6Address),
    "ipv6.dst": ("ipv6_dst", IPv6Address),
    "ipv6.tclass": ("ip_dscp", _dscp),
    "arp.sip": ("arp_spa", IPv4Address),
    "arp.tip": ("arp_tpa", IPv4Address),
    "arp.op": ("arp_op", int),
    "arp.sha": ("arp_sha", str),
    "arp.tha": ("arp_tha", str),
    "nd.target": ("nd_target", IPv6Address),
    "nd.sll": ("nd_sll", str),
    "nd.tll": ("nd_tll", str),
    "nd_ext.nd_reserved": ("nd_reserved", _hexadecimal),
    "nd_ext.nd_options_type": ("nd_options_type", int),
    "tcp.src": ("tcp_src", int),
    "tcp.dst": ("tcp_dst", int),
    "udp.src": ("udp_src", int),
    "udp.dst": ("udp_dst", int),
    "icmpv6.type": ("icmpv6_type", int),
    "icmpv6.code": ("icmpv6_code", int),
}
"""What the datapath calls the fields it writes."""


class TracedBridge:
    """A bridge without a controller, with internal ports of given numbers."""

    def __init__(self, ovs: OvsHost, name: str, ports: Iterable[int]) -> None:
        self._ovs = ovs
        self.name = name
        words: list[str] = []
        for port in ports:
            own = f"{name}p{port}"
            words += ["--", "add-port", name, own, "--", "set", "interface", own, "type=internal"]
            words.append(f"ofport_request={port}")
        ovs.vsctl(
            *("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"),
            *("fail_mode=secure", "protocols=OpenFlow13", *words),
        )
        for port in ports:  # a link that is down is no member that a bundle sends by
            ovs.namespace.run(["ip", "link", "set", f"{name}p{port}", "up"])
        shown = self.ask("dpif/show")
        self._ofports = {
            int(number): int(ofport)
            for ofport, number in re.findall(rf"{name}p\d+ (\d+)/(\d+):", shown)
        }

    def install(self, flows: Iterable[Flow]) -> None:
        """Have these flows and no others; groups of flows before may stay."""
        flows = list(flows)
        for group in {flow.instructions.group for flow in flows} - {None}:
            assert group is not None
            buckets = ",".join(map(str, group.buckets))
            self._ovs.ofctl(
                *("--may-create", "mod-group", self.name),
                f"group_id={group.id},type=select,{buckets}",
            )
        file = self._ovs.rundir / f"{self.name}.flows"
        file.write_text("".join(f"cookie={flow.cookie:#x},{flow}\n" for flow in flows))
        self._ovs.ofctl("replace-flows", self.name, str(file))

    def trace(self, packet: PacketFields) -> Verdict:
        """Return what leaves where; of the path, nothing."""
        return verdict(self.ask("ofproto/trace", self.name, text(packet)), packet, self._ofports)

    def ask(self, *words: str) -> str:
        """Return the switch's answer to a command of `ovs-appctl`."""
        pid = (self._ovs.rundir / "ovs-vswitchd.pid").read_text().strip()
        error, client = UnixctlClient.create(str(self._ovs.rundir / f"ovs-vswitchd.{pid}.ctl"))
        assert not error, error
        try:
            error, refusal, answer = client.transact(words[0], list(words[1:]))
        finally:
            client.close()
        assert not error, error
        assert refusal is None, f"{words}: {refusal}"
        return str(answer)


def verdict(answer: str, packet: PacketFields, ofports: Mapping[int, int]) -> Verdict:
    """Return the verdict of a trace; `ofports` has the ports by the datapath's numbers."""
    final = packet
    for name, shown in (("metadata", "metadata"), ("tunnel_id", "tun_id")):
        written = re.findall(rf"^Final flow: .*\b{shown}=(0x[0-9a-f]+|\d+)", answer, re.MULTILINE)
        if written:
            final = final.put(name, int(written[-1], 0))
    if re.search(r"^ +NORMAL$", answer, re.MULTILINE):
        return Verdict(sent=(Sent(PORT_NORMAL, packet),), final=final)
    actions = re.findall(r"^Datapath actions: (.*)$", answer, re.MULTILINE)
    assert actions, answer
    # after connection tracking the packet starts anew, and the trace with it
    parts = (_TRACKING.sub("", part).strip(",") for part in actions)
    done = ",".join(part for part in parts if part and part != "drop") or "drop"
    return Verdict(sent=tuple(_sent(done, packet, ofports)), final=final)


def _sent(actions: str, packet: PacketFields, ofports: Mapping[int, int]) -> Iterable[Sent]:
    assert "".join(match[0] for match in _ACTION.finditer(actions)) == actions, actions
    for name, words in _ACTION.findall(actions):
        match name:
            case "drop":
                return
            case "set":
                packet = _written(words, packet)
            case "push_vlan":
                vid = re.search(r"vid=(\d+)", words)
                assert vid is not None, words
                packet = replace(packet, tags=(int(vid[1]), *packet.tags))
            case "pop_vlan":
                packet = replace(packet, tags=packet.tags[1:])
            case "userspace":
                assert "controller(" in words, words
                yield Sent(PORT_CONTROLLER, packet)
            case _:
                yield Sent(ofports[int(name)], packet)


def _written(words: str, packet: PacketFields) -> PacketFields:
    setting = _SETTING.fullmatch(words)
    assert setting is not None, words
    for part in setting[2].split(","):
        key, _, value = part.partition("=")
        name, read = _WRITTEN[f"{setting[1]}.{key}"]
        packet = packet.put(name, read(value))
    return packet
