"""How much longer a slow host waits: the factor, and the limits that it holds for."""

import json
import os
import subprocess
import sys

import pytest

from core.errors import UsageError
from core.patience import VARIABLE, factor_of
from daemons import flags

ASKED = """
import json
from netmaster import settings
from netmaster.api import agents, proxy
from netplugin.bridges import tunnel_probes
from netplugin.diagnostics import host_checks as checks
from netplugin.kernel import programs
from netplugin.kube.api import KubeTiming
from netplugin.masters.leader import LeaderTiming
from netplugin.ovsdb import client, replica, rows
from netplugin.pods.host import PodTiming
from netplugin.startup import host_checks
from netplugin.startup.context import Timing as StartTiming
from objdb import failover, registration
from ofnet.channel.session import Timing
lease = next(flag for flag in settings.FLAGS if "lease-ttl" in flag.names)
session, start = Timing(), StartTiming()
print(json.dumps([
    session.handshake, session.echo, session.silence, session.reply, start.ovsdb_wait,
    start.pods.policies_known, PodTiming().flows_gone, LeaderTiming().answer, KubeTiming().connect,
    client.LIMIT, replica._PROBE_MS, rows.BridgeSpec(
        name="b", controller="tcp:127.0.0.1:6633").inactivity_probe_ms,
    failover.ATTEMPT, failover.BUDGET, registration.TTL, float(lease.default), programs.LIMIT,
    agents.ANSWER_TIMEOUT, proxy.ProxyTiming().answer, tunnel_probes.WAIT,
    checks.LIMIT, host_checks.PATIENCE,
]))
"""


def limits(value: str) -> list[float]:
    environ = {**os.environ, VARIABLE: value}
    words = [sys.executable, "-c", ASKED]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def test_a_slow_host_waits_so_many_times_longer() -> None:
    # what no daemon takes harms no import either: the limits are the usual ones
    usual = limits("ten")
    assert usual[:4] == [5, 5, 15, 20]
    assert limits("10") == [10 * one for one in usual]


@pytest.mark.parametrize(
    ("text", "factor"), [(None, 1), ("", 1), ("1", 1), ("2.5", 2.5), ("20", 20)]
)
def test_the_factor_is_what_the_variable_says(text: str | None, factor: float) -> None:
    assert factor_of(text) == factor


@pytest.mark.parametrize("text", ["0", "0.5", "20.1", "-3", "nan", "inf", "ten", "1" * 5000])
def test_another_value_ends_the_start(text: str) -> None:
    with pytest.raises(UsageError, match=f"{VARIABLE} is a number between 1 and 20"):
        flags.read("netplugin", (), [], {VARIABLE: text}, "1.0")
