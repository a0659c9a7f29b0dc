"""`/metrics` of a running cluster: after pods came, the numbers are those of what there is."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from netmaster import master_metrics as of_master
from netplugin.startup import metric_names as names
from tests.bed.cluster import AGENT_PORT, NO_AUDITS, Bed
from tests.bed.hosts import Host
from tests.bed.metrics import Metrics, parsed
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.system.footprint import BRIDGES, flows
from tests.system.metrics import NOT_HERE
from tests.system.rest import ask

pytestmark = [
    pytest.mark.usefixtures("no_pods_left"),
    pytest.mark.system,
]

LOADED = "import 'prometheus_client.core'"
"""What Python says of an import when it is verbose."""


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Have no audit bring a flow back that a test takes away."""
    return {"netplugin": NO_AUDITS}


def page(host: Host) -> Metrics:
    """Return what the agent of a host shows."""
    url = f"http://{host.address}:{AGENT_PORT}/metrics"
    status, body = http_request(url, namespace=host.namespace)
    assert status == 200
    return parsed(body)


def of_switch(host: Host, bridge: str) -> int:
    """Return how many flows Open vSwitch says a bridge has."""
    return sum(1 for line in flows(host) if line.startswith(f"{bridge} "))


def test_an_agent_counts_the_adds_and_flows_that_there_are(bed: Bed) -> None:
    first = bed.hosts[0]
    for number in range(2):
        bed.add_pod(first, f"m{number}")
    eventually(lambda: _settled(first), "tunnel and registrations are there")
    found = page(first)
    assert set(found.kinds) >= {
        one.name.removesuffix("_total") for one in set(names.METRICS) - NOT_HERE
    }
    assert found.value(names.CALLS.name, verb="ADD", code="200") == 2
    assert found.value(f"{names.CALL_SECONDS.name}_count", verb="ADD") == 2
    whole = found.value(f"{names.CALL_SECONDS.name}_sum", verb="ADD")
    for stage in ("grant", "link", "port", "flows", "namespace", "journal adding"):
        assert found.value(f"{names.STAGES.name}_count", stage=stage) >= 2, stage
        assert found.value(f"{names.STAGES.name}_sum", stage=stage) < whole, stage
    assert found.value(names.ENDPOINTS.name, bridge="contivVxlanBridge", side="local") == 2
    assert found.value(names.CONNECTED.name, bridge="contivVxlanBridge") == 1
    eventually(lambda: page(first).value(names.BEHIND.name) == 0, "all is realised")
    eventually(lambda: _flows_agree(first), "wanted, installed and the switch's flows are the same")


def _settled(host: Host) -> bool:
    """Tell whether what does not depend on pods is shown as it stays."""
    found = page(host)
    registered, all_ = (
        found.value(names.REGISTERED.name, state=state) for state in ("registered", "all")
    )
    return found.value(names.TUNNELS.name, state="ready") == 1 and 0 < registered == all_


def _flows_agree(host: Host) -> bool:
    found = page(host)
    return all(
        found.value(names.WANTED.name, bridge=bridge)
        == found.total(names.INSTALLED.name, bridge=bridge)  # 0 while the switch is away
        == of_switch(host, bridge)
        > 0
        for bridge in BRIDGES
    )


def test_an_add_is_found_by_its_container_with_its_stages(bed: Bed) -> None:
    host = bed.hosts[0]
    container = bed.add_pod(host, "timed").sandbox.container_id
    url = f"http://{host.address}:{AGENT_PORT}/inspect/adds?container={container}"
    status, body = http_request(url, namespace=host.namespace)
    (found,) = json.loads(body)["adds"]
    assert (status, found["outcome"], found["pod"]) == (200, "added", "timed")
    stages = {one["stage"]: one for one in found["stages"]}
    assert {"grant", "link", "port", "flows", "namespace", "journal present"} <= stages.keys()
    assert all(
        one["from"] + one["milliseconds"] <= found["milliseconds"] for one in found["stages"]
    )
    assert stages["grant"]["from"] < stages["namespace"]["from"]


def test_a_flow_that_somebody_deletes_is_drift_until_the_audit(bed: Bed) -> None:
    host, bridge = bed.hosts[0], "contivVxlanBridge"
    bed.add_pod(host, "drift")
    eventually(lambda: _flows_agree(host), "nothing is missing")
    host.ovs.ofctl("del-flows", bridge, "table=0")
    found = page(host)
    gone = found.value(names.WANTED.name, bridge=bridge) - found.value(
        names.INSTALLED.name, bridge=bridge
    )
    assert gone > 0
    before = found.value(names.DIFFERENCES.name, bridge=bridge)
    host.ovs.appctl("bridge/reconnect", bridge)  # a new connection is compared at once
    eventually(lambda: _flows_agree(host), "the flows are there again")
    eventually(
        lambda: page(host).value(names.DIFFERENCES.name, bridge=bridge) >= before + gone,
        "they were counted",
    )


def test_a_master_knows_the_agents_and_what_they_have_applied(bed: Bed) -> None:
    bed.add_pod(bed.hosts[1], "applied")

    def settled() -> bool:
        found = parsed(ask(bed, "GET", "/metrics").body)
        agents = {
            state: found.value(of_master.AGENTS.name, state=state)
            for state in ("known", "behind", "faulty")
        }
        return agents == {"known": 2 * len(bed.hosts), "behind": 0, "faulty": 0}

    eventually(settled, "two bridges of each host are known and up to date")
    found = parsed(ask(bed, "GET", "/metrics").body)
    route = {"method": "POST", "route": "/plugin/createEndpoint"}
    assert found.value(of_master.REQUESTS.name, **route, code="200") >= 1
    assert found.total(of_master.COMMITS.name, outcome="failed") == 0


def test_daemons_have_loaded_what_the_page_needs_before_the_first_scrape(bed_dir: Path) -> None:
    own = Bed(bed_dir, hosts=1)
    daemons = (own.netmaster, *own.agents)
    for daemon in daemons:
        daemon._env = {**(daemon._env or {}), "PYTHONVERBOSE": "1"}
    try:
        own.start()
        for daemon in daemons:
            eventually(lambda one=daemon: LOADED in one.log_text(), daemon.name)  # type: ignore[misc]
    finally:
        own.stop()
