"""Two hosts that are given one label: the second is refused, or takes the label over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.waiting import eventually
from tests.system.planes import applied
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


@pytest.fixture
def bed(bed_dir: Path) -> Iterator[Bed]:
    """Run a cluster of two hosts, one of whose agents ends as it must."""
    bed = Bed(bed_dir).start()
    try:
        yield bed
    finally:
        bed.stop()


def _start_as_first(bed: Bed, *flags: str, seconds: str = "60") -> tuple[int, str]:
    """Start the second host's agent under the first one's label until it ends."""
    host = bed.hosts[1]
    command = [*bed.agents[1].command, *flags]
    command[command.index("--host") + 1] = bed.hosts[0].label
    done = host.namespace.run(["timeout", seconds, *command], check=False, env=host.ovs.environment)
    return done.returncode, done.stderr


def test_a_label_has_one_host(bed: Bed) -> None:
    applied(bed)
    before = ask(bed, "GET", "/hosts/h1").json()
    bed.agents[1].stop()
    code, said = _start_as_first(bed)
    assert code == 1, said
    assert f"the host label h1 belongs to another host, at {bed.hosts[0].address}" in said
    after = ask(bed, "GET", "/hosts/h1").json()
    assert (after["vtepIP"], after["errors"]) == (before["vtepIP"], [])
    assert bed.agents[0].running
    # with the flag it starts, and the first host's agent ends
    _, said = _start_as_first(bed, "--takeover-label", seconds="10")
    assert "agent ready" in said
    eventually(lambda: not bed.agents[0].running, "the former host's agent ends", within=10)
    assert "has taken over the host label h1" in bed.agents[0].log_text()
    for agent in bed.agents:
        agent.start(within=60)
    applied(bed)
    assert ask(bed, "GET", "/hosts/h1").json()["vtepIP"] == before["vtepIP"]
