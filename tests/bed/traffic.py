"""How fast packets go between two namespaces: ping's round trips, iperf3's throughput."""

import json
import re
from typing import Any

from tests.bed.netns import Namespace
from tests.bed.waiting import PATIENCE, eventually


def round_trip(
    sender: Namespace,
    address: str,
    *,
    count: int = 1,
    interval: float = 0.2,
    patience: float = PATIENCE,
) -> float | None:
    """Send ICMP echo requests; the mean time in ms if every one was answered, else None.

    An answer may take `patience` seconds: long ones where no request is sent again.
    """
    sent = ["-c", str(count), "-i", str(interval)]
    words = ["ping", "-q", "-n", *sent, "-W", f"{patience:g}", address]
    done = sender.run(words, check=False)
    times = re.search(
        r" 0% packet loss.*\bmin/avg/max/mdev = [\d.]+/([\d.]+)/", done.stdout, re.DOTALL
    )
    return float(times[1]) if times else None


def throughput(
    sender: Namespace,
    receiver: Namespace,
    address: str,
    *,
    seconds: int,
    port: int = 5201,
    by: str = "",
) -> float:
    """Send over one TCP connection for so long; the Mbit/s that arrived.

    `by` is the address that the sender knows the receiver by, if it is not its own.
    """
    words = ["--bind", address, "--port", str(port)]
    server = receiver.popen(["iperf3", "--server", "--one-off", *words])
    try:
        to = by or address
        return eventually(lambda: _sent(sender, to, port, seconds), "iperf3 has a server") / 1e6
    finally:
        server.kill()
        server.wait()


def _sent(sender: Namespace, address: str, port: int, seconds: int) -> float:
    """Return the bits a second that arrived; 0 if nobody listens yet."""
    words = ["iperf3", "--client", address, "--port", str(port), "--time", str(seconds), "--json"]
    done = sender.run(words, check=False, timeout=seconds + 30)
    said: dict[str, Any] = json.loads(done.stdout)
    if "refused" in said.get("error", ""):
        return 0.0
    if "error" in said:
        raise RuntimeError(f"iperf3 to {address}: {said['error']}")
    return float(said["end"]["sum_received"]["bits_per_second"])
