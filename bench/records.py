"""Endpoint records as netmaster writes them, of hosts that are nobody's.

Run as a process (`python -m bench.records KIND URL NETWORK FIRST`) in the namespace the store is
reached from, it does what each line of its standard input says and answers with the monotonic time
at which it began:

    hosts COUNT           host records
    fill START STOP       endpoints and their addresses, many in a commit
    put NUMBER            one endpoint and its address
    raw KEY VALUE         one key
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import islice

import uvloop

from bench.stores import client
from core import ids, keys
from core.addresses import mac_text
from core.ids import HostLabel, NetworkId
from objdb.api import Absent, Backend, Change, Put
from state import codec
from state.records import EndpointRecord, GrantOwner, GrantRecord, HostRecord
from tests.bed.netns import Namespace

WRITERS = 4
HOSTS = 10
_FIRST_HOST = IPv4Address("192.168.77.101")


@dataclass(frozen=True, slots=True)
class Crowd:
    """Endpoints by number on one network, from an address on, spread over hosts."""

    network: NetworkId
    first: IPv4Address
    hosts: int

    def address(self, number: int) -> IPv4Address:
        """Return an endpoint's address."""
        return self.first + number

    def puts(self, numbers: Iterable[int]) -> Iterator[Put]:
        """Return what the store holds of endpoints: each of them, and the grant of its address."""
        for number in numbers:
            endpoint = self._endpoint(number)
            grant = GrantRecord(
                owner=GrantOwner.ENDPOINT, owner_id=endpoint.key, seq=number + 1_000
            )
            yield Put(keys.endpoint(endpoint.key), codec.encode(endpoint))
            yield Put(keys.grant(self.network, endpoint.ip_address), codec.encode(grant))

    def _endpoint(self, number: int) -> EndpointRecord:
        container = f"{number:064x}"
        return endpoint(
            self.network,
            container,
            address=self.address(number),
            on=host(number % self.hosts),
            name=container,
        )


def endpoint(
    network: NetworkId, container: str, *, address: IPv4Address, on: HostLabel, name: str
) -> EndpointRecord:
    """Return an endpoint of a network, in no group."""
    return EndpointRecord(
        key=ids.endpoint_key(network, container),
        network=network,
        endpoint_id=container,
        service_name="",
        group_id=0,
        group_key="",
        ip_address=str(address),
        ipv6_address="",
        mac_address=mac_text(int(address)),
        homing_host=on,
        intf_name="",
        vtep_ip="",
        labels=None,
        container_id="",
        common_name=name,
    )


def host(number: int) -> HostLabel:
    """Return the label of a host that is nobody's."""
    return HostLabel(f"nobody{number}")


async def write(backend: Backend, puts: Iterator[Put]) -> None:
    """Write as much in a commit as fits."""
    # one change of many operations is the largest commit there is
    width = backend.limits.budget - 1
    commits = iter(lambda: tuple(islice(puts, width)), ())

    async def work() -> None:
        for new in commits:
            # what must be absent costs consul one operation less
            await backend.commit([Change(tuple(Absent(put.key) for put in new), new)])

    await asyncio.gather(*(work() for _ in range(WRITERS)))


class Writer:
    """The process as its parent sees it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, *words: object) -> float:
        """Have something done; return the monotonic time at which it began."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the writer has no pipes")
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@contextmanager
def writer(
    namespace: Namespace, kind: str, url: str, network: NetworkId, first: IPv4Address
) -> Iterator[Writer]:
    """Run the process in a namespace for the length of the body."""
    words = [sys.executable, "-m", "bench.records", kind, url, network, str(first)]
    command = [*namespace.enter, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Writer(process)
        finally:
            process.kill()


async def _serve(backend: Backend, crowd: Crowd) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *words = line.split()
        began = time.monotonic()
        match verb:
            case "hosts":
                await write(backend, _hosts(int(words[0])))
            case "fill":
                await write(backend, crowd.puts(range(int(words[0]), int(words[1]))))
            case "put":
                await backend.commit([Change((), tuple(crowd.puts([int(words[0])])))])
            case "raw":
                await backend.commit([Change((), (Put(words[0], words[1].encode()),))])
            case _:
                raise ValueError(line)
        print(began, flush=True)


def _hosts(count: int) -> Iterator[Put]:
    for number in range(count):
        record = HostRecord(
            label=host(number),
            control_ip=str(_FIRST_HOST + number),
            vtep_ip=str(_FIRST_HOST + number),
            vxlan_port=4789,
        )
        yield Put(keys.host(record.label), codec.encode(record))


async def _main(kind: str, url: str, network: str, first: str) -> None:
    backend = client(kind, url)
    try:
        await _serve(backend, Crowd(NetworkId(network), IPv4Address(first), HOSTS))
    finally:
        await backend.close()


if __name__ == "__main__":
    uvloop.run(_main(*sys.argv[1:]))
