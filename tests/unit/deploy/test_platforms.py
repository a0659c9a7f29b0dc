"""docs/platforms.md: the ports to open are those of the code, in the rules of each firewall."""

import re
from typing import Final

import pytest

from netmaster import settings as of_master
from netplugin import settings as of_agent
from netplugin.commands.firewall_checks import needed
from netplugin.settings import REST_PORT
from tests.unit.deploy.platforms import PAGE, rules
from tests.unit.netplugin.commands.preflight import FLAGS
from tests.unit.netplugin.settings import settings_of

FIREWALLS: Final = ("firewall-cmd", "ufw", "nft", "iptables")


def default(daemon: object, flag: str) -> int:
    """Return the port of a flag's default: a number, or the end of an address."""
    (found,) = (one for one in daemon.FLAGS if flag in one.names)  # type: ignore[attr-defined]
    return int(str(found.default).rpartition(":")[2] or REST_PORT)


def opened(firewall: str) -> set[tuple[str, int]]:
    """Return protocols and ports that a block opens."""
    found: set[tuple[str, int]] = set()
    for line in rules(firewall).splitlines():
        rule = line.partition("#")[0]
        found |= {(kind, int(port)) for port, kind in re.findall(r"=(\d+)/(tcp|udp)", rule)}
        if (kind := re.search(r"(?:proto|-p) (tcp|udp)|(tcp|udp) dport", rule)) is not None:
            ports = re.split(r"(?:\bport|dports?) ", rule)[1]
            numbers = re.findall(r"\d+", re.split(r"accept|-j", ports)[0])
            found |= {(str(kind[1] or kind[2]), int(number)) for number in numbers}
    return found


def test_the_table_has_the_ports_of_the_code() -> None:
    rows = re.findall(
        r"^\| (\w+) \| (TCP|UDP) (\d+) \| `--([\w-]+)` \|", PAGE.read_text(), re.MULTILINE
    )
    daemons = {"hosts": of_agent, "masters": of_master}
    assert {(on, flag) for on, _, _, flag in rows} == {
        ("hosts", "vxlan-port"),
        ("hosts", "rest-address"),
        ("hosts", "vxlan-rpc-port"),
        ("hosts", "vlan-rpc-port"),
        ("masters", "external-address"),
        ("masters", "ofnet-port"),
    }
    for on, _, port, flag in rows:
        assert int(port) == default(daemons[on], flag), flag
    on_hosts = {(kind.lower(), int(port)) for on, kind, port, _ in rows if on == "hosts"}
    assert on_hosts == {(one.protocol, one.number) for one in needed(settings_of(FLAGS))}


@pytest.mark.parametrize("firewall", FIREWALLS)
def test_each_firewall_opens_all_of_them(firewall: str) -> None:
    rows = re.findall(r"\| (TCP|UDP) (\d+) \| `", PAGE.read_text())
    assert opened(firewall) == {(kind.lower(), int(port)) for kind, port in rows if port != "2379"}
