"""Makes one report of what all hosts say of their self-tests. Pure.

In come the answers of the agents' `/inspect/selftest` (`netplugin.diagnostics.selftest`) and what
the master knows of each host; out comes `GET /api/v2/selftest`. An answer that cannot be read, and
a host without one, is a failure.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

MOST: Final = 1000
"""Failures of a kind that are told of each host."""

Check = dict[str, Any]
"""`passed`, a count, and `failed`, reasons by what was tested."""


def report(
    said: Mapping[str, bytes], silent: Mapping[str, str], known: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return whether all is well, and for each host its checks by kind.

    A check has `passed`, a count, and `failed`, reasons by what was tested. `known` is how
    `/hosts` shows the hosts.
    """
    behind = {str(host["label"]): _behind(host) for host in known}
    hosts: list[tuple[str, dict[str, Check]]] = []
    for host in sorted({*said, *silent, *behind}):
        checks: dict[str, Check] = {"agent": _check(_fault(host, said, silent))}
        checks |= _read(said.get(host, b"{}")) or {}
        checks["applied"] = _check(behind.get(host, {"record": "the host has no record"}))
        hosts.append((host, checks))
    well = not any(check["failed"] for _, checks in hosts for check in checks.values())
    return {"passed": well, "hosts": [{"host": host, "checks": checks} for host, checks in hosts]}


def _fault(host: str, said: Mapping[str, bytes], silent: Mapping[str, str]) -> dict[str, str]:
    if host not in said:
        return {"answer": silent.get(host, "no netplugin is registered")}
    if _read(said[host]) is None:
        return {"answer": f"not an answer about a self-test: {said[host][:80]!r}"}
    return {}


def _behind(host: Mapping[str, Any]) -> dict[str, str]:
    faults = {f"error {number}": str(one) for number, one in enumerate(host.get("errors", ()), 1)}
    if not host.get("applied"):
        faults["changes"] = str(host.get("behind") or "not all changes are applied")
    return faults


def _check(faults: Mapping[str, str]) -> Check:
    return {"passed": int(not faults), "failed": dict(faults)}


def _read(body: bytes) -> dict[str, Check] | None:
    """Return the checks in an answer; None if it has none."""
    try:
        found = {}
        for kind, check in json.loads(body).items():
            failed = {str(name): str(why) for name, why in check["failed"].items()}
            shown = dict(list(failed.items())[:MOST])
            found[str(kind)] = {"passed": int(check["passed"]), "failed": shown}
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return found
