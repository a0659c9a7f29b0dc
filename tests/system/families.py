"""Which families the networks of a test's pods have.

Tests have their own, most `dual`. `make families-check` runs some of them in each: what they say of
pods holds whatever the pods' addresses are.
"""

import os
from collections.abc import Sequence
from typing import Final

FAMILY: Final = os.environ.get("CONTIV_TEST_FAMILY", "")
"""`v4`, `dual` or `v6`; "" for what a test has."""


def subnets(
    subnet: str, gateway: str, subnet6: str, gateway6: str, *, usual: str = "dual"
) -> Sequence[str]:
    """Return the words of `netctl net create` for a network; `usual` is the test's own family."""
    family = FAMILY or usual
    four = [f"--subnet={subnet}", f"--gateway={gateway}"] if family != "v6" else []
    six = [f"--subnetv6={subnet6}", f"--gatewayv6={gateway6}"] if family != "v4" else []
    return [*four, *six]
