"""The control channel between masters and agents: methods, arguments and registered agents.

Agents register with every master and report their progress; a master asks agents for inspection
(ADR 12). Endpoints and policies reach agents through the store instead. Method names and record
fields are the original's; `OfnetMaster.Report` and `OfnetAgent.Inspect` are new. Unknown fields are
ignored, so that versions can differ. `ofnet.rpc.jsonrpc` is the transport.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any, Final, NamedTuple

from core.errors import Invalid
from ofnet.rpc.jsonrpc import RpcClient, RpcMethod

REGISTER_NODE: Final = "OfnetMaster.RegisterNode"
UNREGISTER_NODE: Final = "OfnetMaster.UnRegisterNode"
REPORT: Final = "OfnetMaster.Report"
ADD_MASTER: Final = "OfnetAgent.AddMaster"
DUMMY: Final = "OfnetAgent.DummyRpc"
INSPECT: Final = "OfnetAgent.Inspect"

# What one host may leave in a master's memory is limited: any process that reaches the port can
# register nodes, and a master keeps them while it runs.
MAX_NAME: Final = 253
"""Characters of an address or a host's name."""
MAX_REVISIONS: Final = 64
MAX_ERRORS: Final = 64
MAX_ERROR: Final = 512
"""Characters of an error; what is longer is cut."""
MAX_NODES: Final = 32_768
"""Registered agents, two of each host; one more takes the place of the one silent for longest."""
MAX_MEMORY: Final = 256 * 1024 * 1024
"""Bytes of all registrations with their reports; what is beyond takes the places of the oldest."""
NODES_PER_ADDRESS: Final = 64
OVERDUE: Final = 3
"""Periods of an agent's reports after which one is overdue."""
SILENCE: Final = 300.0
"""Seconds after which an agent that had reported and reports no more is forgotten."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where a master or an agent listens (OfnetNode)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"HostAddr": self.host, "HostPort": self.port}

    @classmethod
    def from_json(cls, value: Any) -> "Node":
        """Read the wire form. Raises Invalid."""
        match value:
            case {"HostAddr": str(host), "HostPort": int(port)} if (
                0 < port < 65536 and 0 < len(host) <= MAX_NAME
            ):
                return cls(host, port)
            case _:
                raise Invalid(f"not a node: {str(value)[:80]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """The progress of an agent, and the faults on its host.

    `revisions` has for each watched prefix of the store the revision up to which the switches have
    acknowledged the flows of all changes. `history` is the term (`state.lineage`) in whose history
    they were, and in which the agent has claimed its pods: "" for none yet, None from an agent of a
    release without it. `host` is empty for an agent that has only registered. `repeat` is after
    how many seconds the agent reports again, whether or not there are news; None if it does not
    say. `heard` is when a master got it, by that master's clock.
    """

    node: Node
    host: str = ""
    revisions: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    history: str | None = None
    repeat: float | None = None
    heard: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        repeat = {} if self.repeat is None else {"Repeat": self.repeat}
        return {**self.node.to_json(), **self.stats(), **repeat}

    def is_overdue(self, now: float) -> bool:
        """Return whether the agent should have reported again long ago, by its master's clock."""
        return self.repeat is not None and now - self.heard > OVERDUE * self.repeat

    def stats(self) -> dict[str, Any]:
        """Return the report in the form that masters publish."""
        return {
            "Host": self.host,
            "Revisions": dict(self.revisions),
            "Errors": list(self.errors),
            **({} if self.history is None else {"History": self.history}),
        }

    @classmethod
    def from_json(cls, value: Any) -> "AgentReport":
        """Read the wire form. Raises Invalid."""
        match value:
            case {"Host": str(host), "Revisions": dict(revisions), "Errors": [*errors]} if (
                len(host) <= MAX_NAME
                and len(revisions) <= MAX_REVISIONS
                and all(len(prefix) <= MAX_NAME for prefix in revisions)
                and all(_is_revision(revision) for revision in revisions.values())
                and _is_history(history := value.get("History"))
            ):
                return cls(
                    node=Node.from_json(value),
                    host=host,
                    revisions=revisions,
                    errors=shortened(errors),
                    history=history,
                    repeat=_repeat(value.get("Repeat")),
                )
            case _:
                raise Invalid(f"not a report: {str(value)[:80]}")


def _is_history(value: Any) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= MAX_NAME)


def _repeat(value: Any) -> float | None:
    """Return the period that an agent says; None for what is none."""
    return float(value) if type(value) in {int, float} and 0 < value <= SILENCE else None


def _is_revision(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def shortened(errors: Iterable[Any]) -> tuple[str, ...]:
    """Return errors within the limits of a report; the last one counts what is left out."""
    texts = tuple(str(error)[:MAX_ERROR] for error in errors)
    if len(texts) <= MAX_ERRORS:
        return texts
    return (*texts[: MAX_ERRORS - 1], f"and {len(texts) - MAX_ERRORS + 1} more")


_NODE: Final = 600
"""Bytes of a registration and an empty report: objects, and entries in dictionaries."""
_REVISION: Final = 110
"""Bytes of a revision and of its place in a dictionary, without its prefix."""


def _size(report: AgentReport) -> int:
    """Return about how many bytes a master needs to keep a report."""
    # measured, not counted in characters: a single one beyond Latin makes all of a text wider
    texts = (report.node.host, report.host, report.history, *report.revisions, *report.errors)
    return _NODE + _REVISION * len(report.revisions) + sum(map(getsizeof, texts))


class _Heard(NamedTuple):
    """When a node was heard of, and the bytes of its report."""

    time: float
    size: int


@dataclass(slots=True)
class OfnetMaster:
    """A master's side: the registered agents, with the last report of each.

    An agent that has reported, and reports no more, is forgotten after a while. One that never
    reported, as the original's, stays. `clock` counts seconds.
    """

    nodes: dict[Node, AgentReport] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    changed: Callable[[], None] = lambda: None
    """Called when an agent reports something new, is overdue, or is not known any more."""
    _overdue: frozenset[Node] = frozenset()
    _heard: dict[Node, _Heard] = field(default_factory=dict)
    """Each node, the one heard of longest ago first."""
    _addresses: Counter[str] = field(default_factory=Counter)
    """How many nodes each address has."""
    _memory: int = 0
    """Bytes of all reports."""

    def methods(self) -> Mapping[str, RpcMethod]:
        """Return the table for an `jsonrpc.RpcServer`."""
        return {
            REGISTER_NODE: self._register,
            UNREGISTER_NODE: self._unregister,
            REPORT: self._report,
        }

    async def _register(self, argument: Any) -> bool:
        """Register an agent without a report: an earlier one may be of another process there."""
        self._keep(AgentReport(node=Node.from_json(argument)))
        return True

    async def _unregister(self, argument: Any) -> bool:
        self._forget(Node.from_json(argument))
        return True

    async def _report(self, argument: Any) -> bool:
        self._keep(AgentReport.from_json(argument))
        return True

    def look(self) -> None:
        """Find the agents whose report is overdue by now: no message tells of them."""
        now = self.clock()
        overdue = frozenset(node for node, one in self.nodes.items() if one.is_overdue(now))
        if overdue != self._overdue:
            self._overdue = overdue
            self.changed()

    def _keep(self, report: AgentReport) -> None:
        """Keep a report as the newest; forget silent nodes, and the oldest beyond the limits."""
        node, now, size = report.node, self.clock(), _size(report)
        self._expire(now)
        known = self._heard.pop(node, None)
        if known is None:
            self._make_room(node.host)
            self._addresses[node.host] += 1
        else:
            self._memory -= known.size
        while self._heard and self._memory + size > MAX_MEMORY:
            self._forget(next(iter(self._heard)))
        new = self.nodes.get(node) != report
        self.nodes[node] = replace(report, heard=now)
        self._heard[node] = _Heard(now, size)
        self._memory += size
        if new:
            self.changed()

    def _make_room(self, address: str) -> None:
        if self._addresses[address] >= NODES_PER_ADDRESS:
            self._forget(next(node for node in self._heard if node.host == address))
        elif len(self._heard) >= MAX_NODES:
            self._forget(next(iter(self._heard)))

    def _expire(self, now: float) -> None:
        silent = []
        for node, heard in self._heard.items():
            if now - heard.time < SILENCE:
                break
            if self.nodes[node].host:
                silent.append(node)
        for node in silent:
            self._forget(node)

    def _forget(self, node: Node) -> None:
        if (heard := self._heard.pop(node, None)) is None:
            return
        del self.nodes[node]
        self._memory -= heard.size
        self._addresses[node.host] -= 1
        if not self._addresses[node.host]:
            del self._addresses[node.host]
        self.changed()

    def inspect(self, own: Node) -> dict[str, Any]:
        """Return the original's JSON of a master, with what each agent reported beside it."""
        return {
            "MyAddr": own.host,
            "MyPort": own.port,
            "AgentDb": {str(node): node.to_json() for node in self.nodes},
            "EndpointDb": {},
            "PolicyDb": {},
            "AgentStats": {str(node): report.stats() for node, report in self.nodes.items()},
        }


@dataclass(slots=True)
class OfnetAgent:
    """An agent's side: `add_master` registers with a master, `inspect` returns its state."""

    add_master: Callable[[Node], Awaitable[None]]
    inspect: Callable[[], Any]

    def methods(self) -> Mapping[str, RpcMethod]:
        """Return the table for an `jsonrpc.RpcServer`."""
        return {ADD_MASTER: self._add_master, DUMMY: self._dummy, INSPECT: self._inspect}

    async def _add_master(self, argument: Any) -> bool:
        await self.add_master(Node.from_json(argument))
        return True

    async def _dummy(self, argument: Any) -> bool:
        return isinstance(argument, str)

    async def _inspect(self, _argument: Any) -> Any:
        return self.inspect()


async def register(client: RpcClient, own: Node) -> None:
    """Register an agent with a master. Raises RpcFailed."""
    await client.call(REGISTER_NODE, own.to_json())


async def unregister(client: RpcClient, own: Node) -> None:
    """Unregister an agent from a master. Raises RpcFailed."""
    await client.call(UNREGISTER_NODE, own.to_json())


async def report(client: RpcClient, state: AgentReport) -> None:
    """Report an agent's progress to a master. Raises RpcFailed."""
    await client.call(REPORT, state.to_json())


async def inspect(client: RpcClient) -> Any:
    """Return an agent's state. Raises RpcFailed."""
    return await client.call(INSPECT, "")
