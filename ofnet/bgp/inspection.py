"""Reports BGP in the shape of the original's `/inspect/bgp`. Pure.

That is gobgp's object of a neighbour, with the fields that describe a session, and the prefixes
received from the peer. Without prefixes their list is left out.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from ofnet.bgp.messages import Address, Open, Prefix
from ofnet.bgp.peering import Peering
from ofnet.bgp.timing import HOLD_TIME

_KINDS = ("Update", "Notification", "Open", "Refresh", "Keepalive")


class SpeakerState(Protocol):
    """What is reported of a speaker (`ofnet.bgp.speaker.Speaker`)."""

    @property
    def peering(self) -> Peering:
        """Both ends of the session."""

    @property
    def state(self) -> str:
        """The session's state, as gobgp names it."""

    @property
    def established(self) -> bool:
        """True while there is a session."""

    @property
    def peer(self) -> Open | None:
        """The peer's OPEN of this session."""

    @property
    def hold_time(self) -> int:
        """The negotiated hold time in seconds."""

    @property
    def routes(self) -> Mapping[Prefix, Address]:
        """The next hop of each received prefix."""

    @property
    def announced(self) -> Collection[Address]:
        """The addresses announced to the peer."""

    @property
    def counts(self) -> Counter[str]:
        """Messages by direction and kind, sessions and their losses."""


def bgp_report(speaker: SpeakerState) -> dict[str, Any]:
    """Return the JSON object."""
    prefixes = sorted(speaker.routes, key=_order)
    report: dict[str, Any] = {"peers": [_neighbour(speaker)]}
    return {**report, "dsts": [str(prefix) for prefix in prefixes]} if prefixes else report


def _order(prefix: Prefix) -> tuple[int, int, int]:
    return prefix.version, int(prefix.network_address), prefix.prefixlen


def _neighbour(speaker: SpeakerState) -> dict[str, Any]:
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


def _messages(speaker: SpeakerState, way: str) -> dict[str, int]:
    counts = {kind: speaker.counts[f"{way}{kind}"] for kind in _KINDS}
    return {**counts, "Total": sum(counts.values())}
