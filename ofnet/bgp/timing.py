"""The times of a BGP session, in seconds."""

from dataclasses import dataclass
from typing import Final

from core.patience import patient

HOLD_TIME: Final = 90
"""The hold time that this host proposes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTiming:
    """Limits and pauses of `ofnet.bgp.speaker` and `ofnet.bgp.session`."""

    # A router may refuse for some seconds after it lost a session (GoBGP is idle for 5), and one
    # that answers again is found after one more pause or time-out at most. These three therefore
    # add up to less than the 15 s in which the session of a restarted agent has to be back.
    dial: float = patient(4.0)
    handshake: float = patient(8.0)
    """From the connection to the peer's first KEEPALIVE."""

    keepalives: int = 3
    """KEEPALIVEs sent within a hold time."""

    first_pause: float = 0.5
    longest_pause: float = 2.0
    """Between two sessions; one attempt in two seconds is no load for a router."""

    longest_penalty: float = 300.0
    """Between two sessions with a peer that violates the protocol."""

    stale: float = 120.0
    """That a peer may take after its restart to send all routes again (RFC 4724)."""

    end_of_rib: float = 10.0
    """After which a peer without the End-of-RIB marker is taken to have sent all routes."""
