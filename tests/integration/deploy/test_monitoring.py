"""Prometheus' own checker accepts the alert rules, which begin and end as they say."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[3]


MONITORING: Final = ROOT / "deploy" / "monitoring"


ALERTS: Final = yaml.safe_load((MONITORING / "alerts.yml").read_text())


RULES: Final[list[dict[str, Any]]] = [rule for group in ALERTS["groups"] for rule in group["rules"]]


CASES: Final = Path(__file__).with_name("alerts_test.yml")


def test_promtool_accepts_the_rules() -> None:
    command = ["promtool", "check", "rules", str(MONITORING / "alerts.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_alert_begins_with_its_failure_and_ends_after_it(tmp_path: Path) -> None:
    cases = yaml.safe_load(CASES.read_text())
    for test in cases["tests"]:
        (name,) = {case["alertname"] for case in test["alert_rule_test"]}
        shape = [bool(case.get("exp_alerts")) for case in test["alert_rule_test"]]
        assert shape == [False, True, False], f"{name}: before, during and after the failure"
    tested = {case["alertname"] for test in cases["tests"] for case in test["alert_rule_test"]}
    assert tested == {rule["alert"] for rule in RULES}
    # Texts are for people: `promtool` would want them word by word.
    plain = [{k: v for k, v in rule.items() if k != "annotations"} for rule in RULES]
    rules = {"groups": [{"name": "all", "rules": plain}]}
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "alerts_test.yml").write_text(CASES.read_text())
    command = ["promtool", "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scrape_configuration_of_the_page_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    (config,) = (one for one in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "rule" in one)
    jobs = {one["job_name"] for one in yaml.safe_load(config)["scrape_configs"]}
    assert jobs == {"netmaster", "netplugin"}
    (tmp_path / "alerts.yml").write_text((MONITORING / "alerts.yml").read_text())
    (tmp_path / "prometheus.yml").write_text(config)
    command = ["promtool", "check", "config", "prometheus.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
