"""What tests of tunnel probes share."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.metrics import parsed
from tests.bed.netns import Namespace, http_request
from tests.system.rest import ask


@contextmanager
def lossy(between: Namespace, address: str, share: float) -> Iterator[None]:
    """Have a host lose a share of what its tunnels get, in the namespace between the hosts."""
    # the switch in userspace reads the card before any rule of the kernel: a bridge's rules see it
    match = ["-p", "udp", "--dport", "4789", "-d", address]
    by_chance = ["-m", "statistic", "--mode", "random", "--probability", f"{share:g}"]
    rule = ["FORWARD", *match, *by_chance, "-j", "DROP"]
    between.run(["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"])
    between.run(["iptables", "-w", "-A", *rule])
    yield
    between.run(["iptables", "-w", "-D", *rule])


def hears(bed: Bed, host: int, peer: int) -> bool:
    url = f"http://127.0.0.1:{AGENT_PORT}/metrics"
    _, page = http_request(url, namespace=bed.hosts[host].namespace)
    label, seconds = bed.hosts[peer].label, "contiv_netplugin_tunnel_round_trip_seconds"
    return parsed(page).total(seconds, peer=label) > 0


def faults(bed: Bed, host: int) -> str:
    return "\n".join(ask(bed, "GET", f"/hosts/{bed.hosts[host].label}").json()["errors"])


def is_well(bed: Bed, host: int) -> bool:
    return not faults(bed, host)


def tells(bed: Bed, number: int, text: str) -> bool:
    return any(
        line.startswith(f"tunnel to {bed.hosts[1 - number].label}: ") and text in line
        for line in faults(bed, number).splitlines()
    )


def both_tell(bed: Bed, text: str) -> bool:
    return all(tells(bed, number, text) for number in range(2))
