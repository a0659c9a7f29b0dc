"""What tests of refusal share."""

from os_ken.lib.packet import ipv4, ipv6, packet, tcp, udp

CLIENT, VIP = "10.1.0.1", "10.1.0.200"


CLIENT6, VIP6 = "2001:db8::1", "2001:db8::c8"


MACS = bytes.fromhex("02020a0100c8") + bytes.fromhex("02020a010001")


def frame(inner: tcp.tcp | udp.udp, payload: bytes = b"", *, v6: bool = False) -> bytes:
    """Return a frame of the client to the service."""
    ip = ipv6.ipv6(src=CLIENT6, dst=VIP6, nxt=17) if v6 else ipv4.ipv4(src=CLIENT, dst=VIP)
    if v6:
        ip.nxt = 6 if isinstance(inner, tcp.tcp) else 17
    else:
        ip.proto = 6 if isinstance(inner, tcp.tcp) else 17
    built = packet.Packet(protocols=[ip, inner, payload] if payload else [ip, inner])
    built.serialize()
    return MACS + (b"\x86\xdd" if v6 else b"\x08\x00") + bytes(built.data)
