"""An ADD is one trace: in the logs of agent and master, on the host's page, and at a collector."""

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bed.cluster import Bed
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.trace_collector import collecting_traces
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.ovs]

FABRIC, PORT = "192.168.77.254", 4318
COLLECTOR = ["--trace-endpoint", f"http://{FABRIC}:{PORT}/v1/traces"]


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {"netmaster": COLLECTOR, "netplugin": COLLECTOR}


@pytest.fixture(scope="module")
def exported(bed: Bed) -> Iterator[list[ExportTraceServiceRequest]]:
    """Run a collector in the fabric, which daemons find when they have something to send."""
    listener = bed.fabric.namespace.call(lambda: socket.create_server((FABRIC, PORT)))
    with collecting_traces(listener) as got:
        yield got


def read(request: ExportTraceServiceRequest) -> Iterator[dict[str, Any]]:
    for resource in request.resource_spans:
        about = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for one in scope.spans:
                yield {
                    "service": about["service.name"],
                    "name": one.name,
                    "trace": one.trace_id.hex(),
                    "id": one.span_id,
                    "parent": one.parent_span_id,
                    "about": {word.key: word.value.string_value for word in one.attributes},
                }


def trace_of(bed: Bed, pod: Pod) -> str:
    """Return the trace of a pod's ADD, as its host's agent shows it."""
    url = f"{bed.agent_url()}/inspect/adds?container={pod.sandbox.container_id}"
    (add,) = json.loads(http_request(url, namespace=pod.host.namespace)[1])["adds"]
    return str(add["trace"])


def test_the_lines_of_an_add_have_its_trace(bed: Bed) -> None:
    first, second = (bed.add_pod(bed.hosts[0], name) for name in ("one", "two"))
    trace = trace_of(bed, first)
    assert re.fullmatch("[0-9a-f]{32}", trace)
    assert trace != trace_of(bed, second)
    agent = (bed.hosts[0].dir / "netplugin.log").read_text().splitlines()
    master = (bed.dir / "netmaster.log").read_text().splitlines()
    for log, event in ((agent, "pod added"), (master, "endpoint created")):
        (line,) = (one for one in log if f'msg="{event}"' in one and trace in one)
        assert f"trace_id={trace}" in line
        assert first.name in line


def test_a_collector_gets_the_whole_call(
    bed: Bed, exported: list[ExportTraceServiceRequest]
) -> None:
    pod = bed.add_pod(bed.hosts[0], "seen")
    trace = trace_of(bed, pod)

    def found() -> dict[str, dict[str, Any]]:
        spans = (one for request in tuple(exported) for one in read(request))
        return {one["name"]: one for one in spans if one["trace"] == trace}

    names = {"ContivCNI.AddPod", "grant", "link", "flows", "port", "createEndpoint"}
    master = "POST /plugin/createEndpoint"
    eventually(lambda: found().keys() >= {*names, master, "commit"}, "both daemons have sent")
    span = partial(lambda spans, name: spans[name], found())
    assert span("ContivCNI.AddPod")["about"]["container"] == pod.sandbox.container_id
    tree = {
        "grant": "ContivCNI.AddPod",
        "flows": "ContivCNI.AddPod",
        "createEndpoint": "grant",
        master: "createEndpoint",
        "commit": master,
    }
    for below, above in tree.items():
        assert span(below)["parent"] == span(above)["id"]
    assert span(master)["service"] == "netmaster"
    assert span("grant")["service"] == "netplugin"
