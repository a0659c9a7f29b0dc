"""Which requests are limited, and by what."""

from netmaster.api.costly import COSTLY, LIMITS
from netmaster.api.route_table import ROUTES


def test_what_is_costly_has_a_route_and_limits() -> None:
    assert set(COSTLY) <= {(route.method, route.pattern) for route in ROUTES}
    assert set(COSTLY.values()) <= set(LIMITS)
    for limits in LIMITS.values():
        assert limits.per_client <= limits.total - limits.reserve
        assert limits.reserve > 0
