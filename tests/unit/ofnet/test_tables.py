"""The tables' declarations lead forward, and every pipeline's path is complete."""

import pytest

from ofnet.tables import TABLES, Mode, TableId, mode_of
from ofnet.world import Bridge, FwdMode


def test_packets_only_move_forward() -> None:
    for table in TABLES.values():
        assert all(following > table.id for following in table.next)


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        (Mode.VLAN, [3, 4, 5, 6, 9]),
        (Mode.VXLAN, [3, 4, 5, 6, 9]),
        (Mode.VLROUTER, [3, 4, 5, 6, 7]),
        (Mode.VROUTER, [3, 4, 5, 6, 7, 8]),
    ],
)
def test_a_pods_packet_nothing_matches_visits_the_originals_tables(
    mode: Mode, path: list[int]
) -> None:
    visited = [int(TableId.SRV_PROXY_DNAT)]
    while (following := TABLES[TableId(visited[-1])].misses[mode].goto) is not None:
        visited.append(following)
    assert visited == path


@pytest.mark.parametrize(
    ("bridge", "fwd_mode", "mode"),
    [
        (Bridge.VLAN, FwdMode.BRIDGE, "vlan"),
        (Bridge.VXLAN, FwdMode.BRIDGE, "vxlan"),
        (Bridge.VLAN, FwdMode.ROUTING, "vlrouter"),
        (Bridge.VXLAN, FwdMode.ROUTING, "vrouter"),
    ],
)
def test_a_bridges_mode_has_the_originals_name(
    bridge: Bridge, fwd_mode: FwdMode, mode: str
) -> None:
    assert mode_of(bridge, fwd_mode) == mode
