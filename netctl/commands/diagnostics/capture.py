"""`netctl capture`: the packets of an endpoint, as a file in pcap format on standard output."""

import sys

import click

from netctl.commandline import Command, misuse
from netctl.commands.flags import INTEGER, Decorator
from netctl.connection import MasterConnection
from netctl.failure import HELP, CommandFailed

_seconds: Decorator = click.option(
    "-s", "--seconds", type=INTEGER, default=10, show_default=True, help="Seconds, up to 50"
)
_count: Decorator = click.option(
    "-c", "--count", type=INTEGER, default=1000, show_default=True, help="Packets, up to 100000"
)
_snaplen: Decorator = click.option(
    "-n", "--snaplen", type=INTEGER, default=65535, show_default=True, help="Bytes of each packet"
)
_filter: Decorator = click.option(
    "-f",
    "--filter",
    "wanted",
    default="",
    help="Words that must hold: arp, ip, ip6, icmp, icmp6, tcp, udp, host, net, port; and",
)


@click.command(
    "capture",
    cls=Command,
    help="Capture packets of an endpoint to standard output, in pcap format",
    words=("endpoint",),
    wrong_words="Endpoint name required",
)
@_seconds
@_count
@_snaplen
@_filter
@click.pass_obj
def capture(
    master: MasterConnection,
    endpoint: str,
    *,
    seconds: int,
    count: int,
    snaplen: int,
    wanted: str,
) -> None:
    """Write the packets as they come; ends when the capture does, or the reader goes."""
    if sys.stdout.isatty():
        raise CommandFailed(
            "a capture is binary: redirect standard output to a file, as in `> file.pcap`", HELP
        )
    for name, number in (("seconds", seconds), ("count", count), ("snaplen", snaplen)):
        if number < 1:
            raise misuse(f"--{name} must be positive")
    bounds = {"seconds": str(seconds), "count": str(count), "snaplen": str(snaplen)}
    if wanted:
        bounds["filter"] = wanted
    stream = sys.stdout.buffer
    try:
        for part in master.client().capture(endpoint, bounds):
            stream.write(part)
            stream.flush()
    except BrokenPipeError:
        # Who read has enough; nothing more is to be flushed at the end.
        sys.stdout = None
