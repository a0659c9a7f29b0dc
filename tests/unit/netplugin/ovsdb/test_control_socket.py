"""The run directory by the name that ovs-vswitchd knows it by."""

from pathlib import Path

import pytest

from netplugin.ovsdb.control_socket import vswitchd_rundir

HEADER = "Num       RefCount Protocol Flags    Type St Inode Path\n"


def listed(*paths: object) -> str:
    row = "00000000deadbeef: 00000002 00000000 00010000 0001 01 21310"
    return HEADER + "".join(f"{row} {path}".rstrip() + "\n" for path in paths)


@pytest.mark.parametrize(
    ("bound", "named"),
    [
        (["/var/run/openvswitch/ovs-vswitchd.7.ctl"], "/var/run/openvswitch"),
        (["", "@abstract", "/x y/ovs-vswitchd.7.ctl", "/z/ovs-vswitchd.8.ctl"], "/x y"),
        (["/other/ovs-vswitchd.8.ctl"], None),
        (["/a/ovs-vswitchd.7.ctl", "/b/ovs-vswitchd.7.ctl"], None),
        (["relative/ovs-vswitchd.7.ctl"], None),
        ([], None),
    ],
)
def test_it_is_where_ovs_vswitchd_bound_its_control_socket(
    tmp_path: Path, bound: list[str], named: str | None
) -> None:
    (tmp_path / "ovs-vswitchd.pid").write_text("7\n")
    sockets = tmp_path / "unix"
    sockets.write_text(listed(*bound))
    assert vswitchd_rundir(tmp_path, sockets) == (Path(named) if named else tmp_path)


def test_of_two_daemons_of_one_number_it_is_the_one_here(tmp_path: Path) -> None:
    (tmp_path / "ovs-vswitchd.pid").write_text("7\n")
    sockets = tmp_path / "unix"
    sockets.write_text(listed("/a/ovs-vswitchd.7.ctl", tmp_path / "ovs-vswitchd.7.ctl"))
    assert vswitchd_rundir(tmp_path, sockets) == tmp_path


def test_without_ovs_vswitchd_it_is_the_one_given(tmp_path: Path) -> None:
    assert vswitchd_rundir(tmp_path, tmp_path / "unix") == tmp_path
