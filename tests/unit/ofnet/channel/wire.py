"""What tests of wire share."""

import struct
from typing import Any

from os_ken.ofproto import ofproto_protocol, ofproto_v1_3
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.channel import wire

DATAPATH = ofproto_protocol.ProtocolDesc(version=wire.VERSION)


def packed(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def packet_in_bytes(data: bytes, **fields: int) -> bytes:
    message = reference.OFPPacketIn(
        DATAPATH,
        buffer_id=ofproto_v1_3.OFP_NO_BUFFER,
        total_len=len(data),
        reason=1,
        table_id=3,
        cookie=5,
        match=reference.OFPMatch(**fields),
        data=data,
    )
    # os-ken packs no packet-in, so the parts are put together here
    head = struct.pack(">IHBBQ", 0xFFFFFFFF, len(data), 1, 3, 5)
    match = bytearray()
    message.match.serialize(match, 0)
    return head + bytes(match) + bytes(2) + data
