"""Which links live by router advertisements that they do not hear once the host forwards."""

from pathlib import Path

from netplugin.kernel.routes import router_advertisements

ROUTES = """\
20010db8000000000000000000000000 40 {0} 00 {0} 00000100 00000001 00000000 {1} eth0
00000000000000000000000000000000 00 {0} 00 {0} 00000400 00000001 00000000 00450003 eth1
fe800000000000000000000000000000 40 {0} 00 {0} 00000100 00000001 00000000 00000001 eth2
20010db8000000000000000000000000 40 {0} 00 {0} 00000100 00000001 00000000 00440001 eth3
"""


def test_links_with_routes_that_expire_and_are_not_renewed(tmp_path: Path) -> None:
    assert router_advertisements.needing(tmp_path) == [], "a host without IPv6"
    (tmp_path / "net").mkdir()
    routes = ROUTES.format("0" * 32, "00440001")
    (tmp_path / "net" / "ipv6_route").write_text(routes)
    for link, accepts in {"eth0": "1", "eth1": "1", "eth2": "1", "eth3": "2"}.items():
        conf = tmp_path / "sys" / "net" / "ipv6" / "conf" / link
        conf.mkdir(parents=True)
        (conf / "accept_ra").write_text(f"{accepts}\n")
    assert router_advertisements.needing(tmp_path) == ["eth0", "eth1"]
