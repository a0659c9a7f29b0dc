"""Two hosts that are given one label: the second is refused, or takes the label over."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.waiting import WITHIN, eventually
from tests.system.planes import applied
from tests.system.rest import ask

pytestmark = [pytest.mark.system]


@pytest.fixture
def bed(bed_dir: Path) -> Iterator[Bed]:
    """Run a cluster of two hosts, one of whose agents ends as it must."""
    bed = Bed(bed_dir).start()
    try:
        yield bed
    finally:
        bed.stop()


def _as_first(bed: Bed, *flags: str) -> list[str]:
    """Return the command of the second host's agent, under the first one's label."""
    command = [*bed.agents[1].command, *flags]
    command[command.index("--host") + 1] = bed.hosts[0].label
    return command


def _refused(bed: Bed, command: Sequence[str]) -> tuple[int, str]:
    """Start the second host's agent with another command until it ends."""
    host, limited = bed.hosts[1], ["timeout", f"{WITHIN:g}", *command]
    done = host.namespace.run(limited, check=False, env=host.ovs.environment, timeout=None)
    return done.returncode, done.stderr


def _taker(bed: Bed) -> Daemon:
    """Return the second host's agent as the one that takes the first one's label over."""
    host, log = bed.hosts[1], bed.dir / "taker.log"
    return Daemon(
        _as_first(bed, "--takeover-label"),
        log=log,
        namespace=host.namespace,
        env=host.ovs.environment,
        ready=lambda: "agent ready" in log.read_text(),
    )


def test_a_label_has_one_host(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §6."""
    applied(bed)
    before = ask(bed, "GET", "/hosts/h1").json()
    bed.agents[1].stop()
    code, said = _refused(bed, _as_first(bed))
    assert code == 1, said
    assert f"the host label h1 belongs to another host, at {bed.hosts[0].address}" in said
    after = ask(bed, "GET", "/hosts/h1").json()
    assert (after["vtepIP"], after["errors"]) == (before["vtepIP"], [])
    assert bed.agents[0].running
    # with the flag it starts, and the first host's agent ends
    taker = _taker(bed)
    taker.start()
    eventually(lambda: not bed.agents[0].running, "the former host's agent ends")
    taker.stop()
    assert "has taken over the host label h1" in bed.agents[0].log_text()
    for agent in bed.agents:
        agent.start()
    applied(bed)
    assert ask(bed, "GET", "/hosts/h1").json()["vtepIP"] == before["vtepIP"]


@pytest.mark.parametrize("flag", ["--vtep-ip", "--ctrl-ip"])
def test_an_address_that_the_host_does_not_have_is_not_told_to_others(bed: Bed, flag: str) -> None:
    """Peers would send to it: the pods of this host would lose those of all others."""
    bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
    applied(bed)
    pods = [bed.add_pod(host, f"on-{host.label}") for host in bed.hosts]
    ping = partial(pods[0].ping, pods[1].address)
    eventually(ping, "pods reach each other")
    before = ask(bed, "GET", "/hosts/h2").json()
    bed.agents[1].stop()
    command = [*bed.agents[1].command, "--rest-address", f"{bed.hosts[1].address}:9090"]
    command[command.index(flag) + 1] = "192.168.77.99"
    code, said = _refused(bed, command)
    assert code == 1, said
    assert "no link of this host has the address 192.168.77.99" in said
    after = ask(bed, "GET", "/hosts/h2").json()
    assert (after["vtepIP"], after["controlIP"]) == (before["vtepIP"], before["controlIP"])
    eventually(ping, "they still do")
    bed.agents[1].start()
