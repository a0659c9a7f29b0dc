"""A running cluster for the tests of a module to share, and what a fault in it looks like."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.system.families import subnets

UNFORESEEN = re.compile(r"level=fatal|internal error|crashed|request failed|never retrieved")
"""What no daemon may ever log: a failure nobody foresaw (ADR 15)."""


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Say which flags the daemons get beside the usual ones; a module may have its own."""
    return {}


@pytest.fixture(scope="module")
def hosts() -> int:
    """Say how many hosts there are; a module may need more."""
    return 2


@pytest.fixture(scope="module")
def bed(
    bed_dirs: Iterator[Path], store_kind: str, hosts: int, flags: Mapping[str, Sequence[str]]
) -> Iterator[Bed]:
    """Run the whole system, with a network `default-net` (10.20.0.0/16, or fd00:20::/64)."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, hosts, store=store_kind, flags=flags).start()
    try:
        words = subnets("10.20.0.0/16", "10.20.0.1", "fd00:20::/64", "fd00:20::1", usual="v4")
        bed.netctl("net", "create", *words, "default-net")
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


@pytest.fixture
def no_pods_left(bed: Bed) -> Iterator[None]:
    """Delete the pods of each test; modules say whether theirs need it."""
    yield
    for pod in list(bed.pods):
        bed.delete_pod(pod)


@pytest.fixture(scope="module")
def line(bed: Bed) -> None:
    """Give the first host a line to netmaster and store that does not pass through its switch."""
    host, fabric = bed.hosts[0].namespace, bed.fabric.namespace
    host.run(["ip", "link", "add", "line", "type", "veth", "peer", "line", "netns", fabric.name])
    for namespace, own, other in (
        (host, bed.hosts[0].address, bed.fabric.address),
        (fabric, bed.fabric.address, bed.hosts[0].address),
    ):
        # no link-local address, which pods must not reach: its flows would come at some later time
        namespace.run(["ip", "link", "set", "line", "addrgenmode", "none"])
        namespace.run(["ip", "link", "set", "line", "up"])
        namespace.run(["ip", "route", "add", other, "dev", "line", "src", own])


def unforeseen(bed: Bed) -> list[str]:
    """List the lines of the daemons' logs that tell of failures nobody foresaw."""
    logs = [bed.netmaster, *bed.agents]
    return [
        line
        for daemon in logs
        for line in daemon.log_text().splitlines()
        if UNFORESEEN.search(line)
    ]
