"""Every case of administrators' policies: entries and oracle both give the expected answers."""

import pytest

from tests.unit.netplugin.world.kubernetes.admin_cases import (
    NODE,
    STEPS,
    address,
    cluster_of,
)
from tests.unit.netplugin.world.kubernetes.oracle import allowed
from tests.unit.netplugin.world.kubernetes.switch import Switch
from tests.unit.netplugin.world.kubernetes.world import OUTSIDE, VRF, policies_of


def test_the_table_has_all_steps() -> None:
    assert len(STEPS) == 2 * (7 * 3 + 7 * 2 + 8 + 6 + 3 + 4) + 5
    assert sum(len(step.checks) for step in STEPS.values()) > 600


@pytest.mark.parametrize("name", STEPS)
def test_connections_pass_as_expected(name: str) -> None:
    known = cluster_of(STEPS[name])
    switch = Switch(policies_of(known).entries.values(), VRF)
    for version in (4, 6):
        for check in STEPS[name].checks:
            if version == 6 and {check.source, check.target} & {NODE, OUTSIDE}:
                continue
            ends = [address(known, end, version) for end in (check.source, check.target)]
            packet = (ends[0], ends[1], check.protocol, check.port)
            assert switch.allows(*packet) is check.passes, (version, check)
            assert allowed(known, *packet) is check.passes, (version, check)
