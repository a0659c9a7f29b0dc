"""Which ports of this host the rules of INPUT refuse. Pure."""

import pytest

from netplugin.commands.firewall_checks import FirewallPort, refused_ports

ACCEPT, REJECT = "-P INPUT ACCEPT", "-A INPUT -j REJECT --reject-with icmp-host-prohibited"
DROP = "-P INPUT DROP"
TUNNELS, REST = FirewallPort("udp", 4789), FirewallPort("tcp", 9090)


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ([ACCEPT], []),
        ([DROP], [TUNNELS, REST]),
        ([ACCEPT, REJECT], [TUNNELS, REST]),
        ([ACCEPT, "-A INPUT -m comment --comment last -j DROP"], [TUNNELS, REST]),
        ([ACCEPT, "-A INPUT -p tcp -j DROP"], []),
        ([DROP, "-A INPUT -p udp -m udp --dport 4789 -j ACCEPT"], [REST]),
        ([DROP, "-A INPUT -p udp -m multiport --dports 53,4789 -j ACCEPT"], [REST]),
        ([DROP, "-A INPUT -p tcp -m multiport --dports 22,9002:9090 -j ACCEPT"], [TUNNELS]),
        ([DROP, "-A INPUT -p udp -m udp --dport 14789 -j ACCEPT"], [TUNNELS, REST]),
        ([DROP, "-A INPUT -p udp -m udp --dport 9090 -j ACCEPT"], [TUNNELS, REST]),
        ([DROP, "-A INPUT -p tcp -j ACCEPT"], [TUNNELS]),
        ([DROP, "-A INPUT -s 192.0.2.0/24 -j ACCEPT"], []),
        ([DROP, "-A INPUT -i lo -j ACCEPT"], [TUNNELS, REST]),
        ([DROP, "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"], [TUNNELS, REST]),
        # as ufw has it, in a chain that INPUT leads to
        ([DROP, "-A ufw-user-input -s 192.0.2.0/24 -p udp --dport 4789 -j ACCEPT"], [REST]),
    ],
)
def test_ports_are_refused_that_no_rule_accepts(
    lines: list[str], refused: list[FirewallPort]
) -> None:
    assert refused_ports(lines, [TUNNELS, REST]) == refused
