"""A pipeline: the features of one mode, and the flows they have for each object.

`ofnet.desired` calls `Pipeline.flows` for each object that changed.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from ofnet.changes import ObjectId, ObjectKind, held
from ofnet.flows import Flow
from ofnet.openflow.actions import DROP
from ofnet.openflow.match import Match
from ofnet.pipelines.features import (
    cluster_dns,
    contiv_policy,
    flow_records,
    host_forwarding,
    host_paths,
    name_port,
    network_policy,
    pod_guard,
    policy_class,
    service_nat,
)
from ofnet.pipelines.features.feature import Feature, Rule
from ofnet.pipelines.packet_path import neighbours
from ofnet.tables import Mode, Priority, TableId
from ofnet.world import World


def _barred(ofport: int, _world: World) -> Iterator[Flow]:
    """Yield the flow that drops all that comes by the port of an endpoint which is to get nothing.

    No table may see it: where Open vSwitch bridges, NORMAL would learn from it where the address
    is.
    """
    yield Flow(ObjectKind.BARRED, TableId.INPUT, Priority.BARRED, Match(in_port=ofport), DROP)


_BARRED: Final[Feature] = {ObjectKind.BARRED: _barred}


def _common(mode: Mode) -> tuple[Feature, ...]:
    """Return the features of every mode."""
    return (
        _BARRED,
        contiv_policy.FEATURE,
        policy_class.FEATURE,
        pod_guard.feature(mode),
        name_port.FEATURE,
        cluster_dns.feature(mode),
        network_policy.feature(mode),
        host_forwarding.FEATURE,
        host_paths.feature(mode),
        service_nat.feature(mode),
    )


class Pipeline:
    """The features of one mode: `own`, and those that all modes have."""

    # A rule may read the whole World besides its object. Each such read is a dependency, and
    # `ofnet.changes.affected` must name it: else the flows of this object stay as they were when
    # what was read changes. `tests/unit/ofnet/test_desired.py` compares both ways of computing.

    def __init__(self, mode: Mode, *own: Feature) -> None:
        self.mode: Final = mode
        features = (*own, *_common(mode))
        self.rules: Final[Mapping[ObjectKind, tuple[Rule, ...]]] = {
            kind: tuple(feature[kind] for feature in features if kind in feature)
            for kind in ObjectKind
        }

    def flows(self, of: ObjectId, world: World) -> Iterator[Flow]:
        """Yield the flows one object of the World owns, in a form the datapath can carry out."""
        one = held(of, world)
        if one is None:
            return iter(())
        rules = self.rules[of.kind]
        wanted: Iterator[Flow] = chain.from_iterable(rule(one, world) for rule in rules)
        if not world.nd_extension:
            wanted = map(neighbours.completed_by_agent, wanted)
        return map(flow_records.recorded, wanted) if world.flow_records else wanted
