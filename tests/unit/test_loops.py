"""What fails repeatedly is repeated by `core.retry` alone (ADR 40): the source has no other way.

Judged are loops that catch a failure and go on, pauses that grow, and lines of the log that promise
another attempt.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("core", "daemons", "objdb", "state", "ofnet", "netmaster", "netplugin")
THE_LOOP: Final = "core/retry.py"

FAILURES: Final = frozenset({
    *("AgentUnavailable", "ContivError", "Exception", "HostError", "MasterUnavailable", "NoAnswer"),
    *("OSError", "OrchestratorUnavailable", "PeerFailed", "RpcFailed", "StoreUnavailable"),
    *("StreamBroken", "SwitchRefused", "SwitchUnavailable"),
})  # fmt: skip
"""What may pass by itself, so that another attempt is worth while."""

LOOPS: Final = {
    # one request or question, whose caller waits, and hears of the last failure
    "netmaster/commits/commit.py Committer._commit_plan": "decides once more on a newer view",
    "netplugin/diagnostics/live_trace.py _received": "a link's end, told once: a second ends it",
    "netplugin/masters/leader.py LeaderClient.call": "ends with the time of the request",
    "objdb/consul/leases.py _session_of": "ends with the time of the grant",
    "objdb/failover.py Failover.call_members": "ends with the budget of the call",
    # no failure: the kernel says that events did not fit, which counts as a change
    "netplugin/kernel/firewall/firewall_watch.py _read": "ENOBUFS",
    "netplugin/kernel/netns.py _follow": "ENOBUFS",
    # what reports by itself
    "ofnet/bgp/speaker.py Speaker.run": "BGP's own states and pauses; a fault of the host names it",
    # a program of its own, without an event loop; all it has is its log
    "netplugin/commands/enrol.py run": "a container that ends when it is done",
}
"""Loops that catch a failure and go on, and why they are none of `core.retry`."""

PAUSES: Final = {
    "netplugin/bridges/vxlan/port_retries.py": "of Open vSwitch's failures, not of the agent's",
    "netplugin/kube/api.py": "also of watches that end well",
    "netplugin/pods/claims.py": "of claims that netmaster refuses, which are faults by themselves",
    "objdb/etcd/channel.py": "of one call",
    "objdb/failover.py": "of one call",
    "ofnet/bgp/speaker.py": "of sessions, by how the one before ended",
    "ofnet/flow_sync.py": "until the next comparison, which nothing has to fail for",
}
"""Modules that take pauses from `Pace`, and of what."""

PROMISES: Final = {
    "netplugin/commands/enrol.py": "see above",
    "netmaster/commands/kube_certificates.py": "a container of its own, without an event loop",
    "netmaster/commands/default_network.py": "the same",
}
"""Modules whose log promises another attempt in words of their own."""


@cache
def sources() -> Sequence[tuple[str, ast.Module]]:
    """Return the modules that catch anything or have loops."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            if name != THE_LOOP and re.search(r"\bexcept\b|Loop\(|\.pauses\b", text):
                found.append((name, ast.parse(text)))
    return found


def functions(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield all functions by their names, as `Class.method`."""
    left: list[tuple[str, ast.AST]] = [("", module)]
    while left:
        scope, node = left.pop()
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            name = f"{scope}{child.name}" if named else scope  # type: ignore[attr-defined]
            if named and not isinstance(child, ast.ClassDef):
                yield name, child
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                left.append((f"{name}." if named else scope, child))


def within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a node, but in functions that it defines."""
    left = [*ast.iter_child_nodes(node)]
    while left:
        child = left.pop()
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            left.extend(ast.iter_child_nodes(child))


def caught(handler: ast.ExceptHandler) -> set[str]:
    named = handler.type
    types = named.elts if isinstance(named, ast.Tuple) else [named]
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in types}


def goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a loop goes on after a handler that tells no `Loop` of the failure."""
    if isinstance(handler.body[-1], ast.Raise | ast.Return | ast.Break):
        return False
    calls = (one.func for one in within(handler) if isinstance(one, ast.Call))
    return not any(isinstance(one, ast.Attribute) and one.attr == "failed" for one in calls)


def hand_written(function: ast.AST) -> bool:
    """Return whether a function catches a failure in a loop without end, and goes on."""
    for loop in within(function):
        if not isinstance(loop, ast.While | ast.AsyncFor | ast.For):
            continue
        if isinstance(loop, ast.For) and not is_endless(loop):
            continue  # of some things, one that fails stops no other
        if any(
            isinstance(one, ast.ExceptHandler) and caught(one) & FAILURES and goes_on(one)
            for one in within(loop)
        ):
            return True
    return False


def is_endless(loop: ast.For) -> bool:
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in {"pauses", "count"}


def hand_written_loops() -> set[str]:
    return {
        f"{name} {function}"
        for name, module in sources()
        for function, node in functions(module)
        if hand_written(node)
    }


def log_texts(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if isinstance(of, ast.Name) and of.id in {"log", "logger"} and node.args:
                yield from (one.value for one in ast.walk(node.args[0]) if is_text(one))  # type: ignore[attr-defined]


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_no_loop_goes_on_after_a_failure_by_itself() -> None:
    assert hand_written_loops() == set(LOOPS)


def test_pauses_grow_nowhere_else() -> None:
    taken = {
        name
        for name, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and node.attr == "pauses"
    }
    assert taken == set(PAUSES)


def test_no_other_line_of_the_log_promises_another_attempt() -> None:
    promising = {
        name
        for name, module in sources()
        if any("retrying" in text or "trying again" in text for text in log_texts(module))
    }
    assert promising == set(PROMISES)


def test_names_of_loops_are_words_that_the_source_has() -> None:
    """They are labels of a metric, whose values must be few."""
    for name, module in sources():
        for node in ast.walk(module):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "Loop" and len(node.args) > 1:
                assert is_text(node.args[1]) or name in {
                    "netplugin/bridges/reconcile_loop.py",  # of a `ReconcileLoop`'s name
                    "objdb/etcd/watching.py",  # of its two callers
                }, name
            if node.func.id == "ReconcileLoop":
                (word,) = [one.value for one in node.keywords if one.arg == "name"]
                assert is_text(word), name


REFUSED: Final = [
    ("while True", "await g()", "HostError as exc", "log.info('x')"),
    ("while not closed", "await g()", "(KeyError, OSError)", "pass"),
    ("for pause in PACE.pauses()", "await g()", "ContivError", "await sleep(pause)"),
    ("async for _ in changes()", "g()", "errors.StoreUnavailable", "continue"),
]
ALLOWED: Final = [
    ("while True", "await g()", "TimeoutError", "pass"),
    ("while True", "await g()", "HostError", "return"),
    ("while True", "await g()", "HostError as exc", "await sleep(loop.failed(exc))"),
    ("for one in many", "await g(one)", "HostError as exc", "failure = exc"),
]


def is_seen(loop: str, work: str, caught: str, then: str) -> bool:
    text = f"""
async def f():
    {loop}:
        try:
            {work}
        except {caught}:
            {then}
"""
    return any(hand_written(node) for _, node in functions(ast.parse(text)))


@pytest.mark.parametrize("parts", REFUSED)
def test_a_loop_by_hand_is_seen(parts: tuple[str, str, str, str]) -> None:
    assert is_seen(*parts)


@pytest.mark.parametrize("parts", ALLOWED)
def test_other_loops_are_not(parts: tuple[str, str, str, str]) -> None:
    assert not is_seen(*parts)
