"""Alert rules and dashboard: their metrics and labels exist, and each alert begins and ends."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml

from core.metrics import Metric, MetricKind
from daemons.request_stats import RequestStats
from netctl.main import cli
from netmaster import master_metrics as of_master
from netmaster.commits.commit_stats import CommitStats
from netplugin.startup import metric_names as of_agent

ROOT: Final = Path(__file__).parents[3]
MONITORING: Final = ROOT / "deploy" / "monitoring"
ALERTS: Final = yaml.safe_load((MONITORING / "alerts.yml").read_text())
RULES: Final[list[dict[str, Any]]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD: Final = json.loads((MONITORING / "dashboard.json").read_text())
DECLARED: Final[dict[str, Metric]] = {
    one.name: one for one in (*of_master.METRICS, *of_agent.METRICS)
}


def known(name: str) -> Metric | None:
    """Return the metric that a name in an expression is of."""
    for suffix in ("_bucket", "_sum", "_count"):
        found = DECLARED.get(name.removesuffix(suffix))
        if name.endswith(suffix) and found is not None:
            return found if found.kind is MetricKind.HISTOGRAM else None
    found = DECLARED.get(name)
    return found if found is not None and found.kind is not MetricKind.HISTOGRAM else None


def expressions() -> Iterator[str]:
    """Yield all expressions of rules and dashboard."""
    yield from (rule["expr"] for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_metric_and_label_of_an_expression_exists(expression: str) -> None:
    names = re.findall(r"\b(contiv_\w+)(?:\{([^}]*)\})?", expression)
    assert names or re.search(r"\b(up|process_|ALERTS)", expression)
    for name, selector in names:
        metric = known(name)
        assert metric is not None, name
        labels = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selector))
        assert labels <= {*metric.labels, "job", "instance"}, name


def test_every_counter_is_read_as_a_rate() -> None:
    for expression in expressions():
        for name, metric in DECLARED.items():
            if metric.kind is MetricKind.COUNTER and name in expression:
                assert re.search(rf"(rate|increase|changes)\(\s*{name}\b", expression), expression


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "action"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    for command in re.findall(r"`netctl ([\w -]+)`", rule["annotations"]["action"]):
        found: click.Command | None = cli
        for word in command.split():
            assert isinstance(found, click.Group)
            found = found.get_command(click.Context(found), word)
            assert found is not None, command


def test_the_operator_finds_the_pods_and_ports_of_the_manifests() -> None:
    monitors = list(yaml.safe_load_all((MONITORING / "podmonitors.yml").read_text()))
    jobs = set()
    for monitor in monitors:
        ((label, name),) = monitor["spec"]["selector"]["matchLabels"].items()
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        job = name.removeprefix("contiv-")
        jobs.add(job)
        base = ROOT / "deploy" / "kubernetes" / "base" / f"{job}.yaml"
        found = next(yaml.safe_load_all(base.read_text()))
        assert found["metadata"]["namespace"] == monitor["metadata"]["namespace"]
        template = found["spec"]["template"]
        assert template["metadata"]["labels"][label] == name
        ports = [
            port["name"] for one in template["spec"]["containers"] for port in one.get("ports", ())
        ]
        assert endpoint["port"] in ports
        assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": job}]
    assert jobs == {"netmaster", "netplugin"}


def test_the_first_row_of_the_dashboard_says_whether_all_is_well() -> None:
    first, *others = DASHBOARD["panels"]
    row = [panel for panel in others if panel["gridPos"]["y"] == first["gridPos"]["y"] + 1]
    alerts = {rule["alert"] for rule in RULES}
    assert len(row) >= 6
    for panel in row:
        assert panel["type"] == "stat"
        assert panel["description"]
        (link,) = panel["links"]
        searched = link["url"].rpartition("=")[2]
        assert link["url"].startswith("/alerting/list?search=")
        assert any(alert.startswith(searched) for alert in alerts)


def test_panels_of_the_dashboard_do_not_overlap_and_have_units() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))


def test_counters_of_alerts_are_there_before_they_count() -> None:
    """Prometheus sees no increase in a counter that begins with what it counts."""
    assert CommitStats().outcomes == dict.fromkeys(("committed", "refused", "failed", "fenced"), 0)
    stats = RequestStats()
    stats.expect((200, 500), "ADD")
    stats.count(500, 0.1, "ADD")
    stats.expect((200, 500), "ADD")
    assert stats.answered == {("ADD", "200"): 0, ("ADD", "500"): 1}
