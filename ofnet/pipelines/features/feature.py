"""A feature: the flows of one subject, by the kind of object that owns them. Pure.

Each module of a subject exports one (`service_nat`, `network_policy`, `pod_guard` ...), or makes it
for a mode; the modules of the modes export what forwards. `ofnet.pipelines.pipeline` adds features
up. So a new kind of object touches its feature and `ofnet.changes.KINDS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.world import World

Rule = Callable[[Any, World], Iterable[Flow]]
"""Returns the flows of an object as `ofnet.changes.held` has it, in a World."""

Feature = Mapping[ObjectKind, Rule]


def of_world(flows: Callable[[World], Iterator[Flow]]) -> Rule:
    """Return the rule of a kind that has no objects but the World itself."""
    return lambda _, world: flows(world)
