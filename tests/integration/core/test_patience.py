"""Limits are those of a slow host from the start of its process on."""

import json
import os
import subprocess
import sys

from core.patience import VARIABLE

ASKED = """
import json
from netmaster import settings
from netmaster.api.http import proxy
from netmaster.api.leader import agents
from netplugin.bridges.vxlan import tunnel_probes
from netplugin.diagnostics import host_checks as checks
from netplugin.kernel.firewall import programs
from netplugin.kube.api import KubeTiming
from netplugin.masters.leader import LeaderTiming
from netplugin.ovsdb import client, replica, rows
from netplugin.pods.registry.pod_host import PodTiming
from netplugin.startup import host_checks
from netplugin.startup.context import AgentTiming
from objdb import failover, registration
from ofnet.channel.session import ChannelTiming
lease = next(flag for flag in settings.FLAGS if "lease-ttl" in flag.names)
session, start = ChannelTiming(), AgentTiming()
print(json.dumps([
    session.handshake, session.echo, session.silence, session.reply, start.ovsdb_wait,
    start.pods.policies_known, PodTiming().flows_gone, LeaderTiming().answer, KubeTiming().connect,
    client.LIMIT, replica._PROBE_MS, rows.BridgeSpec(
        name="b", controller="tcp:127.0.0.1:6633").inactivity_probe_ms,
    failover.ATTEMPT, failover.BUDGET, registration.TTL, float(lease.default), programs.LIMIT,
    agents.ANSWER_TIMEOUT, proxy.ProxyTiming().answer, tunnel_probes.WAIT, tunnel_probes.OVERTAKEN,
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
