"""Label selectors of Kubernetes (LabelSelector of `meta/v1`). Pure.

A selector holds when all its requirements hold. An empty selector selects everything; a field that
is absent selects nothing, which callers express by None.
"""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from netplugin.world.kubernetes.kube_objects import Part

Labels = Mapping[str, str]


class Operator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Part):
    """One expression of a selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Labels) -> bool:
        """Return whether labels meet the requirement; NotIn holds without the label too."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


class Selector(Part):
    """A label selector."""

    match_labels: dict[str, str] = Field(default_factory=dict, alias="matchLabels")
    match_expressions: tuple[Requirement, ...] = Field((), alias="matchExpressions")

    def selects(self, labels: Labels) -> bool:
        """Return whether labels meet all requirements."""
        return all(labels.get(name) == value for name, value in self.match_labels.items()) and all(
            one.holds(labels) for one in self.match_expressions
        )
