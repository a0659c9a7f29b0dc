"""What tests of manifests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


INSTALLED = documents(DEPLOY / "contiv.yaml")


def the_one(kind: str, name: str, of: list[dict[str, Any]] = INSTALLED) -> dict[str, Any]:
    found = [x for x in of if (x["kind"], x["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, (kind, name)
    return found[0]


def pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in objects:
        if "template" in one.get("spec", {}):
            yield one["spec"]["template"]["spec"]


def containers(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for pod in pods(objects):
        yield from (*pod.get("initContainers", []), *pod.get("containers", []))
