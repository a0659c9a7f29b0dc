"""What tests of preflight share."""

CLOSED = {
    "iptables": """
        iptables -P INPUT DROP
        iptables -A INPUT -i lo -j ACCEPT
        iptables -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT
    """,
    "nft": """
        nft add table inet filter
        nft add chain inet filter input '{ type filter hook input priority 0 ; policy drop ; }'
        nft add chain inet filter forward '{ type filter hook forward priority 0 ; policy drop ; }'
        nft add rule inet filter input ct state established accept
    """,
}
"""How a host is closed; answers of the store come in."""
