"""What an agent shows of BGP, in the shape of the original's `/inspect/bgp`. Pure.

That is gobgp's configuration of a neighbour, of which there is what says something of a session,
and the prefixes the peer told of; without any, nothing is said of them.
"""

from typing import Any

from ofnet.bgp.peering import Peering
from ofnet.bgp.speaker import HOLD_TIME, Speaker

_KINDS = ("Update", "Notification", "Open", "Refresh", "Keepalive")


def bgp_report(speaker: Speaker) -> dict[str, Any]:
    """Return the JSON object."""
    prefixes = sorted(speaker.routes)
    report: dict[str, Any] = {"peers": [_neighbour(speaker)]}
    return {**report, "dsts": [str(prefix) for prefix in prefixes]} if prefixes else report


def _neighbour(speaker: Speaker) -> dict[str, Any]:
    peering, peer = speaker.peering, speaker.peer
    return {
        "Config": _config(peering),
        "State": {
            "PeerAs": peer.asn if peer is not None else 0,
            "LocalAs": peering.asn if peer is not None else 0,
            "NeighborAddress": str(peering.peer),
            "SessionState": speaker.state,
            "AdminState": "ADMIN_STATE_UP",
            "AdminDown": False,
            "RemoteRouterId": str(peer.router_id) if peer is not None else "",
            "EstablishedCount": speaker.counts["Established"],
            "Flops": speaker.counts["Flops"],
            "Messages": {way: _messages(speaker, way) for way in ("Sent", "Received")},
            "AdjTable": {
                "Advertised": len(speaker.announced) if speaker.established else 0,
                "Received": len(speaker.routes),
                "Accepted": len(speaker.routes),
            },
        },
        "Timers": {
            "Config": {"HoldTime": HOLD_TIME, "KeepaliveInterval": HOLD_TIME // 3},
            "State": {
                "NegotiatedHoldTime": speaker.hold_time,
                "KeepaliveInterval": speaker.hold_time // 3,
            },
        },
    }


def _config(peering: Peering) -> dict[str, Any]:
    return {
        "PeerAs": peering.peer_asn,
        "LocalAs": peering.asn,
        "PeerType": "external" if peering.external else "internal",
        "NeighborAddress": str(peering.peer),
        "AdminDown": False,
    }


def _messages(speaker: Speaker, way: str) -> dict[str, int]:
    counts = {kind: speaker.counts[f"{way}{kind}"] for kind in _KINDS}
    return {**counts, "Total": sum(counts.values())}
