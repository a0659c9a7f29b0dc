"""All metrics that are declared: their names, by Prometheus' rules, and docs/metrics.md."""

import re
from pathlib import Path
from typing import Final

import pytest

from core.metrics import Metric, MetricKind
from netmaster import master_metrics as of_master
from netplugin.startup import metric_names as of_agent
from tests.unit.scripts import script

ROOT: Final = Path(__file__).parents[2]
DECLARED: Final = {
    "netmaster": of_master.METRICS,
    "netplugin": of_agent.METRICS,
}
ALL: Final = [metric for part in DECLARED.values() for metric in part]
UNBOUNDED: Final = {"host", "pod", "endpoint", "container", "address", "path", "peer", "ip"}
"""Labels whose values come and go with what runs in the cluster."""
NAMED: Final = {one.name for one in (of_agent.POD_BYTES, of_agent.POD_PACKETS, of_agent.POD_DROPS)}
"""Which have a pod in each line, as many as `--pod-metrics-top` says."""
PROBED: Final = {of_agent.TUNNEL_LOSS.name, of_agent.TUNNEL_SECONDS.name}
"""Whose peers are at most fifty (`netplugin.bridges.vxlan.tunnel_probes`)."""


def test_names_are_there_once() -> None:
    # a counter's family has the name without its ending: readers of OpenMetrics refuse a page on
    # which another metric has that name
    families = [metric.name.removesuffix("_total") for metric in ALL]
    assert len(families) == len(set(families))


@pytest.mark.parametrize("part", DECLARED)
def test_every_metric_of_a_module_is_listed(part: str) -> None:
    module = {"netmaster": of_master, "netplugin": of_agent}[part]
    declared = [value for value in vars(module).values() if isinstance(value, Metric)]
    assert set(DECLARED[part]) == set(declared)
    assert all(metric.name.startswith(f"contiv_{part}_") for metric in declared)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_follows_the_rules(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert (metric.kind is MetricKind.COUNTER) == metric.name.endswith("_total")
    if metric.kind is MetricKind.HISTOGRAM:
        assert metric.name.endswith(("_seconds", "_bytes", "_changes")), "its unit"
    assert not metric.name.endswith(("_count", "_sum", "_bucket", "_milliseconds", "_ms"))
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
    bounded = {"peer"} if metric.name in PROBED else {"pod", "container"}
    unbounded = UNBOUNDED & set(metric.labels)
    assert unbounded <= (bounded if metric.name in PROBED | NAMED else set())
    assert not {"le", "quantile", "job", "instance"} & set(metric.labels)
    assert metric.help.endswith(".")


def test_the_page_is_as_declared() -> None:
    assert script("metrics-page").main(["--check"]) == 0, "run scripts/metrics-page"
