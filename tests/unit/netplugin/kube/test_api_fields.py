"""Each field of Kubernetes' objects is read, or docs/kubernetes.md says that it is not.

`fields-1.36.json` has the fields of Service, EndpointSlice and NetworkPolicy, and of Pod those of
its specification, of its containers with their ports, and of its status, as the API's description
names them. (The official client for Python is made of it: 36.0.3.) What is read are the fields of
the models here.
"""

import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from netplugin.world.kubernetes import kube_pods
from netplugin.world.kubernetes.kube_objects import ServiceObject, SliceObject
from netplugin.world.kubernetes.policy_objects import NetworkPolicy

ROOT: Final = Path(__file__).parents[4]
FIELDS: Final[dict[str, list[str]]] = json.loads(
    (ROOT / "tests/golden/kube/fields-1.36.json").read_text(encoding="utf-8")
)
MODELS: Final[dict[str, type[BaseModel]]] = {
    "Service": ServiceObject,
    "EndpointSlice": SliceObject,
    "NetworkPolicy": NetworkPolicy,
    "Pod": kube_pods._Pod,
}
FOLLOWED: Final = {"apiVersion", "kind", "metadata.resourceVersion", "spec.nodeName"}
"""What lists and watches go by (`netplugin.kube.api`), not the models."""
OLDER: Final = {"endpoints.topology"}
"""Fields that only former versions of the API have."""
ALL: Final = "all four"
PAGE: Final = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def read(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield the fields that a model reads, each after those it is in."""
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        yield path
        for part in models_in(field.annotation):
            yield from read(part, f"{path}.")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in the annotation of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in typing.get_args(annotation):
        yield from models_in(one)


def left_out() -> dict[str, list[str]]:
    """Return the fields of each kind that the page says are not read."""
    section = PAGE.partition("\n## Fields of the API\n")[2].partition("\n## ")[0]
    named: dict[str, list[str]] = {}
    for row in section.splitlines():
        if row.startswith("| ") and "`" in row:
            kind, fields, _who = row.strip("| ").split(" | ")
            named.setdefault(kind, []).extend(re.findall(r"`([\w.*]+)`", fields))
    return named


def meant(name: str, known: set[str], taken: set[str]) -> set[str]:
    """Return the fields that a name stands for: with those in it, or, by `.*`, others beside."""
    if name.endswith(".*"):
        inside = {path for path in known if path.rpartition(".")[0] == name.removesuffix(".*")}
        return inside - taken
    return {path for path in known if f"{path}.".startswith(f"{name}.")}


@pytest.mark.parametrize("kind", MODELS)
def test_each_field_is_read_or_said_not_to_be(kind: str) -> None:
    known, taken = set(FIELDS[kind]), set(read(MODELS[kind])) | FOLLOWED
    assert set(read(MODELS[kind])) - known <= OLDER, "misspelt, or of another version"
    page = left_out()
    covered: set[str] = set()
    for name in (*page[ALL], *page[kind]):
        found = meant(name, known, taken)
        assert found, f"{name} is no field of {kind}"
        assert not found & taken, f"{name} is read"
        covered |= found
    assert known - taken - covered == set(), "neither read nor named"


def test_the_page_has_these_kinds() -> None:
    assert left_out().keys() == {ALL, *MODELS}
