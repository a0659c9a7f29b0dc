"""Whether the rules of INPUT refuse tunnels. Pure."""

import pytest

from netplugin.commands.firewall_checks import refuses_tunnels

ACCEPT, REJECT = "-P INPUT ACCEPT", "-A INPUT -j REJECT --reject-with icmp-host-prohibited"


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ([ACCEPT], False),
        (["-P INPUT DROP"], True),
        ([ACCEPT, REJECT], True),
        ([ACCEPT, "-A INPUT -m comment --comment last -j DROP"], True),
        ([ACCEPT, "-A INPUT -p tcp -j DROP"], False),
        (["-P INPUT DROP", "-A INPUT -p udp -m udp --dport 4789 -j ACCEPT"], False),
        (["-P INPUT DROP", "-A INPUT -p udp -m multiport --dports 53,4789 -j ACCEPT"], False),
        (["-P INPUT DROP", "-A INPUT -p udp -m udp --dport 14789 -j ACCEPT"], True),
    ],
)
def test_tunnels_are_refused_where_no_rule_names_them(lines: list[str], refused: bool) -> None:
    assert refuses_tunnels(lines, 4789) is refused
