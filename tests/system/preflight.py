"""What tests of preflight share."""

from tests.bed.cluster import PROGRAMS, Bed
from tests.bed.waiting import WITHIN

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


def preflight(bed: Bed, *more: str, number: int = 0) -> tuple[int, dict[str, str]]:
    """Run the command as the unit of a host's agent would; its status and lines by subject."""
    host = bed.hosts[number]
    places = ["--ovsdb", f"unix:{host.ovs.db_socket}", "--data-dir", str(host.dir / "data")]
    places += ["--cni-socket", str(bed.cni_socket(host)), "--host", host.label]
    places += ["--ctrl-ip", host.address, "--vtep-ip", host.address]
    modes = ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"]
    command = [str(PROGRAMS / "netplugin"), "preflight", *modes, *bed.store_flags(), *places, *more]
    done = host.namespace.run(command, check=False, timeout=WITHIN)
    findings = done.stdout.replace("\n ", " ").splitlines()
    return done.returncode, {line.split(":")[0].split(maxsplit=1)[1]: line for line in findings}
