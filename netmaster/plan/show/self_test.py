"""Makes one report of what all hosts say of their self-tests. Pure.

In come the answers of the agents' `/inspect/selftest` (`netplugin.diagnostics.selftest`) and what
the master knows of each host; out comes `GET /api/v2/selftest`. An answer that cannot be read, and
a host without one, is a failure.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from contivmodel import answers
from core.errors import AgentUnavailable
from netmaster import agent_answers
from netmaster.agent_answers import Count, Name, Text

MOST: Final = 1000
"""Failures of a kind that are told of each host."""
MOST_KINDS: Final = 100


@with_config(ConfigDict(title="SelfTestCheck"))
class Check(TypedDict):
    """How many tests of a kind passed, and why others failed, by what was tested."""

    passed: answers.Count
    failed: dict[str, str]


class SelfTestHost(TypedDict):
    """The checks of a host, by kind."""

    host: str
    checks: dict[str, Check]


class SelfTest(TypedDict):
    """Whether all hosts passed, and what each found."""

    passed: bool
    hosts: list[SelfTestHost]


class _Outcome(TypedDict):
    passed: Count
    failed: dict[Name, Text]


_ANSWER: Final = TypeAdapter[dict[str, _Outcome]](
    Annotated[dict[Name, _Outcome], Field(max_length=MOST_KINDS)]
)


def report(
    replies: Mapping[str, bytes], unreachable: Mapping[str, str], known: Iterable[Mapping[str, Any]]
) -> SelfTest:
    """Return whether all is well, and for each host its checks by kind.

    A check has `passed`, a count, and `failed`, reasons by what was tested. `known` is how
    `/hosts` shows the hosts.
    """
    behind = {str(host["label"]): _behind(host) for host in known}
    hosts: list[tuple[str, dict[str, Check]]] = []
    for host in sorted({*replies, *unreachable, *behind}):
        fault, read = _read(host, replies, unreachable)
        checks: dict[str, Check] = {"agent": _check(fault), **read}
        checks["applied"] = _check(behind.get(host, {"record": "the host has no record"}))
        hosts.append((host, checks))
    well = not any(check["failed"] for _, checks in hosts for check in checks.values())
    return {"passed": well, "hosts": [{"host": host, "checks": checks} for host, checks in hosts]}


def _behind(host: Mapping[str, Any]) -> dict[str, str]:
    faults = {f"error {number}": str(one) for number, one in enumerate(host.get("errors", ()), 1)}
    if not host.get("applied"):
        faults["changes"] = str(host.get("behind") or "not all changes are applied")
    return faults


def _check(faults: Mapping[str, str]) -> Check:
    return {"passed": int(not faults), "failed": dict(faults)}


def _read(
    host: str, replies: Mapping[str, bytes], unreachable: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Check]]:
    """Return why a host has no checks, and the checks in its answer."""
    if host not in replies:
        return {"answer": unreachable.get(host, "no netplugin is registered")}, {}
    try:
        answer = agent_answers.read(host, "an answer about a self-test", replies[host], _ANSWER)
    except AgentUnavailable as exc:
        return {"answer": str(exc)}, {}
    return {}, {
        kind: {"passed": check["passed"], "failed": dict(islice(check["failed"].items(), MOST))}
        for kind, check in answer.items()
    }
