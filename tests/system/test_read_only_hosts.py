"""A host whose files are read-only: the daemons write where their settings say, nowhere else."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.netns import answers
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

# All file systems of this machine that hold files are read-only, those of the kernel (/proc, /sys)
# as they are. What follows is the directory that the settings name, and the command.
CLOSED = r"""
own=$1; shift
mount --bind "$own" "$own"
findmnt --noheadings --list --output TARGET,FSTYPE | while read -r target kind; do
  case $kind in proc|sysfs|cgroup*|devtmpfs|devpts|nsfs|mqueue) continue;; esac
  # one that stays writable is found below, if it matters
  [ "$target" = "$own" ] || mount -o remount,bind,ro "$target" || true
done
for folder in / /etc /usr /opt /var /run /tmp; do
  [ ! -w "$folder" ] || { echo "$folder is not read-only" >&2; exit 1; }
done
exec "$@"
"""


@pytest.fixture
def bed(bed_dir: Path) -> Iterator[Bed]:
    bed = Bed(bed_dir, 2)
    for daemon, own in (
        (bed.netmaster, bed_dir),
        *((agent, host.dir) for agent, host in zip(bed.agents, bed.hosts, strict=True)),
    ):
        # what is mounted later, as pods' namespaces are, is seen inside
        unshare = ["unshare", "--mount", "--propagation", "slave", "bash", "-euc", CLOSED, "closed"]
        daemon.command = [*unshare, str(own), *daemon.command]
    bed.start()
    try:
        yield bed
    finally:
        bed.stop()


def test_the_daemons_write_where_their_settings_say_and_nowhere_else(bed: Bed) -> None:
    bed.netctl("net", "create", "--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")
    pods = [bed.add_pod(host, f"closed-{host.label}") for host in bed.hosts]
    eventually(lambda: pods[0].ping(pods[1].address) is not None, "pods reach each other")
    # what was written is read again
    bed.agents[0].restart()
    eventually(lambda: pods[0].ping(pods[1].address) is not None, "pods reach each other again")
    for pod in pods:
        bed.delete_pod(pod)
    for host in bed.hosts:
        ready = partial(answers, f"http://{host.address}:9090/readyz", namespace=host.namespace)
        eventually(ready, f"{host.label}: its agent is ready")
