"""Recorded flows as values: what a dump says, with port names in place of numbers.

`tests.golden.run` plays what led to them, `tests.golden.deviations` judges the differences.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

FLOWS = Path(__file__).parent / "flows"

_NAME = re.compile(r"(vlan|vxlan)-(bridge|routing)-(\d\d)-(.*)-(node\d)")
_FLOW = re.compile(r"(?:table=(\d+), )?priority=(\d+),?(\S*) actions=(\S+)")
_PORT = re.compile(r"(?<=in_port=)\d+|(?<=output:)\d+")
_INTERFACE = re.compile(
    r'^name +: (\S+)\nmac_in_use +: "(.*)"\nexternal_ids +: \{(?:endpoint-id=)?(.*)\}$',
    re.MULTILINE,
)
_RULE = re.compile(r"(\d+):(\{[^}]*\})")


class Line(NamedTuple):
    """A flow as text."""

    table: int
    priority: int
    match: str
    actions: str

    def __str__(self) -> str:
        return f"table={self.table}, priority={self.priority},{self.match} actions={self.actions}"


@dataclass(frozen=True)
class Interface:
    """Who a port is for (`endpoint-id`, "" for tunnels) and its MAC address."""

    endpoint_id: str
    mac: str


@dataclass(frozen=True)
class Recording:
    """One dump of a bridge of a host."""

    name: str
    text: str

    @classmethod
    def read(cls, name: str) -> "Recording":
        """Return the recording in a file of the folder."""
        return cls(name, (FLOWS / f"{name}.txt").read_text())

    @property
    def encap(self) -> str:
        """`vlan` or `vxlan`."""
        return self._part(1)

    @property
    def fwd_mode(self) -> str:
        """`bridge` or `routing`."""
        return self._part(2)

    @property
    def step(self) -> int:
        """The number of the step of the run."""
        return int(self._part(3))

    @property
    def node(self) -> str:
        """`node1` or `node2`."""
        return self._part(5)

    @cached_property
    def ports(self) -> Mapping[str, int]:
        """The bridge's ports and their numbers."""
        found = re.findall(r"^ (\d+)\((\w+)\):$", self.text, re.MULTILINE)
        return {name: int(number) for number, name in found}

    @cached_property
    def interfaces(self) -> Mapping[str, Interface]:
        """The ports of all of the host's bridges by their names."""
        return {
            name: Interface(endpoint_id=who, mac=mac)
            for name, mac, who in _INTERFACE.findall(self.text)
        }

    @cached_property
    def rules(self) -> Mapping[str, Mapping[str, str | int]]:
        """The rules that the step's description lists, by their ids."""
        listed = self.text.splitlines()[1].partition("all rules so far: ")[2]
        return {rule_id: json.loads(rule) for rule_id, rule in _RULE.findall(listed)}

    @cached_property
    def lines(self) -> frozenset[Line]:
        """The flows."""
        flows = re.findall(r"^ cookie=0x[0-9a-f]+, (.*)$", self.text, re.MULTILINE)
        assert flows
        return frozenset(lines(flows, self.ports))

    @cached_property
    def groups(self) -> Mapping[str, frozenset[tuple[str, ...]]]:
        """The buckets of each group, each with its actions, by `group:N`."""
        found = re.findall(r"^ group_id=(\d+),type=all(.*)$", self.text, re.MULTILINE)
        return {f"group:{number}": self._buckets(text) for number, text in found}

    def _buckets(self, text: str) -> frozenset[tuple[str, ...]]:
        buckets = text.split(",bucket=actions=")[1:]
        return frozenset(tuple(named(bucket, self.ports).split(",")) for bucket in buckets)

    def _part(self, number: int) -> str:
        found = _NAME.fullmatch(self.name)
        assert found, self.name
        return found[number]


def recordings(fwd_mode: str) -> list[Recording]:
    """Return what was recorded in a forwarding mode, in the order in which it came about.

    First both empty bridges, then the vxlan networks, then the vlan networks, then what both share.
    """
    found = [Recording.read(path.stem) for path in sorted(FLOWS.glob(f"*-{fwd_mode}-*.txt"))]
    return sorted(found, key=_order)


def lines(flows: Iterable[str], ports: Mapping[str, int]) -> Iterable[Line]:
    """Yield flows as lines with port names."""
    for flow in flows:
        found = _FLOW.fullmatch(named(flow, ports))
        assert found, flow
        yield Line(int(found[1] or 0), int(found[2]), found[3], found[4])


def named(text: str, ports: Mapping[str, int]) -> str:
    """Return the text with port names for numbers; a number nobody has becomes `gone<number>`."""
    names = {number: name for name, number in ports.items()}
    return _PORT.sub(lambda found: names.get(int(found[0]), f"gone{found[0]}"), text)


def _order(recording: Recording) -> tuple[int, int, str]:
    match recording.step:
        case 1:
            phase = 0
        case step if step < 34:
            phase = 1 if recording.encap == "vxlan" else 2
        case _:
            phase = 3
    return phase, recording.step, recording.node
