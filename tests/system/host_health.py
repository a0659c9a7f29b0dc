"""What the masters and the agent itself say of a host: its errors, and whether it is ready."""

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.netns import http_request
from tests.system.rest import ask


def faults(bed: Bed, host: int) -> str:
    return "\n".join(ask(bed, "GET", f"/hosts/{bed.hosts[host].label}").json()["errors"])


def readyz(bed: Bed, host: int) -> tuple[int, str]:
    url = f"http://127.0.0.1:{AGENT_PORT}/readyz"
    status, body = http_request(url, namespace=bed.hosts[host].namespace)
    return status, body.decode()


def is_ready(bed: Bed, host: int) -> bool:
    return readyz(bed, host)[0] == 200


def is_well(bed: Bed, host: int) -> bool:
    return not faults(bed, host) and is_ready(bed, host)
