"""The audit log: one line for each decision about a request or login.

Lines go to the logger `audit`, with the fields `user`, `role`, `address`, `method`, `path` and
`reason`. They have no query, no body, no password and no token.
"""

import logging
from dataclasses import dataclass
from typing import Final

from core.logs import fields
from netmaster.auth.forwarding import ANONYMOUS
from netmaster.auth.roles import Decision, Identity

log: Final = logging.getLogger("audit")

_LONGEST: Final = 256
"""Characters of a path or name that are logged; both are the client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrigin:
    """Where a request comes from, and its target. `path` is as received, percent-encoded."""

    address: str
    method: str
    path: str


def request_decided(origin: RequestOrigin, who: Identity | None, decision: Decision) -> None:
    """Log the decision about a request."""
    level = logging.INFO if decision.allowed else logging.WARNING
    outcome = "access allowed" if decision.allowed else "access denied"
    name, role = (ANONYMOUS, None) if who is None else (who.name, who.role)
    log.log(level, outcome, extra=_fields(origin, name, role, decision.reason))


def capture_began(
    origin: RequestOrigin | None, who: Identity | None, *, endpoint: str, host: str
) -> None:
    """Log that packets of an endpoint are shown to somebody."""
    name, role = (ANONYMOUS, None) if who is None else (who.name, who.role)
    about = _fields(origin, name, role, "packets") if origin else fields(user=name)
    log.info("capture began", extra={**about, **fields(endpoint=endpoint, host=host)})


def packet_sent(
    origin: RequestOrigin | None, who: Identity | None, *, endpoint: str, host: str
) -> None:
    """Log that a packet is sent in the name of an endpoint."""
    name, role = (ANONYMOUS, None) if who is None else (who.name, who.role)
    about = _fields(origin, name, role, "live trace") if origin else fields(user=name)
    log.info("packet sent", extra={**about, **fields(endpoint=endpoint, host=host)})


def login_succeeded(origin: RequestOrigin, who: Identity) -> None:
    """Log a login."""
    log.info("login succeeded", extra=_fields(origin, who.name, who.role, "password"))


def login_failed(origin: RequestOrigin, name: str, reason: str) -> None:
    """Log a login that failed; `name` is what the client claims to be."""
    log.warning("login failed", extra=_fields(origin, name, None, reason))


def _fields(origin: RequestOrigin, name: str, role: str | None, reason: str) -> dict[str, object]:
    return fields(
        user=name[:_LONGEST],
        role=role,
        address=origin.address,
        method=origin.method[:_LONGEST],
        # A query may carry a token.
        path=origin.path.partition("?")[0][:_LONGEST],
        reason=reason,
    )
