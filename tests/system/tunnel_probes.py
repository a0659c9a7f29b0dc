"""What tests of tunnel probes share."""

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.metrics import parsed
from tests.bed.netns import http_request
from tests.system.rest import ask


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
