"""The requests that cost a master and all hosts much, and how many of each are answered at once.

In comes a route, from `netmaster.api.dispatch`; out comes its kind, whose limits are
`netmaster.api.http.places`'.
"""

from collections.abc import Mapping
from typing import Final

from netmaster.api.http.places import LimitedPlaces, PlaceLimits
from netmaster.api.v2.diagnostics import (
    capture,
    diagnosis,
    flow_list,
    kubernetes_rules,
    policy_log,
    rule_hits,
    selftest,
    suggestion,
)

_ALL_HOSTS: Final = PlaceLimits(total=32, per_client=6, reserve=8, per_address=32)
_ONE_HOST: Final = PlaceLimits(total=64, per_client=8, reserve=16, per_address=64)
DRY_RUN: Final = "dry runs"
COSTLY: Final[Mapping[tuple[str, str], str]] = {
    ("GET", capture.PATH): "captures",
    ("GET", "/api/v2/trace"): "traces",
    ("POST", "/api/v2/trace"): "live traces",
    ("GET", diagnosis.PATH): "diagnoses",
    ("GET", selftest.PATH): "self-tests",
    ("GET", rule_hits.PATH): "sums of all hosts' rules",
    ("GET", kubernetes_rules.PATH): "readings of all hosts' Kubernetes rules",
    ("GET", flow_list.PATH): "readings of all hosts' flows",
    ("GET", flow_list.WATCH_PATH): "watches of flows",
    ("GET", suggestion.PATH): "suggestions of policies",
    ("GET", policy_log.PATH): "readings of all hosts' policy logs",
}
"""By method and pattern of the route: what is limited, by its name."""
LIMITS: Final[Mapping[str, PlaceLimits]] = {
    "captures": _ONE_HOST,
    "traces": _ONE_HOST,
    "live traces": PlaceLimits(total=16, per_client=4, reserve=4, per_address=16),
    "diagnoses": PlaceLimits(total=4, per_client=2, reserve=1, per_address=4),
    "self-tests": PlaceLimits(total=8, per_client=2, reserve=2, per_address=8),
    "sums of all hosts' rules": _ALL_HOSTS,
    "readings of all hosts' policy logs": _ALL_HOSTS,
    "readings of all hosts' Kubernetes rules": _ALL_HOSTS,
    "readings of all hosts' flows": _ALL_HOSTS,
    "suggestions of policies": PlaceLimits(total=8, per_client=2, reserve=2, per_address=8),
    "watches of flows": PlaceLimits(total=32, per_client=4, reserve=8, per_address=16),
    DRY_RUN: _ALL_HOSTS,
}


def places() -> Mapping[str, LimitedPlaces]:
    """Return the places of everything that is limited, by its name."""
    return {what: LimitedPlaces(what, limits) for what, limits in LIMITS.items()}
