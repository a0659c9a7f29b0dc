"""The command `netmaster import`: takes over what the original keeps in its store.

In come the original's keys and values (`objdb.original`); they are translated
(`netmaster.takeover`), and what is reported of that is printed. Without refusals the result is
written to the store that the daemon's flags name, which must be empty; the original's store is only
read. `netmaster.commands.dispatch` runs it. The steps around it are in docs/take-over.md.
"""

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from core import keys
from core.errors import Conflict, ContivError, UsageError
from daemons.flags import Flag, Generation, Values
from netmaster.commands import backup
from netmaster.takeover.findings import TakeoverOutcome, summary
from netmaster.takeover.translation import Translation, translate
from objdb import original
from objdb.api import Absent, Backend, Change, Put
from state import schema

FLAGS: Final = (
    Flag(
        names=("from-etcd",),
        env="FROM_ETCD",
        help="the original's etcd, whose API v2 is served, as http(s)://host:port",
        generation=Generation.OURS,
    ),
    Flag(
        names=("from-consul",),
        env="FROM_CONSUL",
        help="the original's consul, as http(s)://host:port; its token is in CONSUL_HTTP_TOKEN",
        generation=Generation.OURS,
    ),
    Flag(
        names=("from-file",),
        env="FROM_FILE",
        help="a file with what `curl <etcd>/v2/keys/contiv.io?recursive=true` or `consul kv export "
        "contiv.io/` has printed; - is standard input",
        generation=Generation.OURS,
    ),
    Flag(
        names=("leave-out",),
        env="LEAVE_OUT",
        help="a key of the original's that is not imported; may be repeated",
        repeatable=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("uplink-mac",),
        env="UPLINK_MAC",
        help="a host's label and its uplink's MAC address, as LABEL=MAC, where vlan networks are "
        "routed; may be repeated",
        repeatable=True,
        generation=Generation.OURS,
    ),
    Flag(
        names=("dry-run",),
        env="DRY_RUN",
        help="only report what would be imported",
        default="false",
        switch=True,
        generation=Generation.OURS,
    ),
)
_SOURCES: Final = ("from-etcd", "from-consul", "from-file")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_WHO: Final = "netmaster import"


class ImportRefused(ContivError):
    """The original's store holds what cannot be imported, as the report says."""


async def run(backend: Backend, values: Values) -> None:
    """Import, and print the report.

    Raises UsageError, Refused, Conflict for a store in use, Invalid for what is not the original's,
    or StoreUnavailable.
    """
    found = await asyncio.to_thread(_read, values)
    leave_out = frozenset(filter(None, values["leave-out"].split(",")))
    _check_known(found, leave_out)
    translation = translate(found, leave_out, _uplink_macs(values["uplink-mac"]))
    sys.stdout.write("".join(f"{line}\n" for line in _report(translation)))
    if translation.refusals:
        raise ImportRefused(f"{len(translation.refusals)} keys are refused: nothing is imported")
    if values.on("dry-run"):
        return
    if translation.leader and not values["from-file"]:
        raise Conflict(
            f"{translation.leader} leads the original: stop all of its netmasters, so that nothing "
            "changes there any more; its lock ends after 30 s"
        )
    written = await write(backend, translation, replace=values.on("replace"))
    sys.stdout.write("imported\n" if written else "imported already, nothing was changed\n")


async def write(backend: Backend, translation: Translation, *, replace: bool) -> bool:
    """Write a translation to an empty store; return False for one that holds just that already.

    Raises Conflict for any other store, unless `replace` gives up what it holds.
    """
    before = await backup.stored(backend)
    done = before.get(keys.SCHEMA) == schema.encode(schema.CURRENT) and translation.values == {
        key: value for key, value in before.items() if key not in backup.OF_THE_STORE
    }
    if not done:
        await backup.write(
            backend, _WHO, translation.values, lambda held: _check(held, replace=replace)
        )
    # After the rest: a record of a host makes agents tunnel to it, which does no harm by itself.
    for key, value in translation.hosts.items():
        await backend.commit([Change((Absent(key),), (Put(key, value),))])
    return not done


def _check(held: Mapping[str, bytes], *, replace: bool) -> bool:
    """Return whether agents of ours have worked with the store; raise Conflict to keep it."""
    if held and keys.SCHEMA not in held:
        raise Conflict(
            "the store to write to holds the original's own keys, which going back needs: name "
            "another store; or save them (`consul kv export contiv.io/ >original.json`), delete "
            "them (`consul kv delete -recurse contiv.io/`), and import --from-file"
        )
    if held and not replace:
        raise Conflict(
            f"the store holds {len(held)} keys of netmaster's, and not what would be imported: "
            "--replace deletes them"
        )
    return bool(held)


def _read(values: Values) -> dict[str, bytes]:
    given = [name for name in _SOURCES if values[name]]
    if len(given) != 1:
        raise UsageError(f"one of --{', --'.join(_SOURCES)} is needed")
    (source,) = given
    match source:
        case "from-etcd":
            found = original.read_etcd(values[source])
        case "from-consul":
            found = original.read_consul(values[source], os.environ.get("CONSUL_HTTP_TOKEN", ""))
        case _:
            found = original.parse(_text(values[source]))
    if not any(key.startswith(keys.ROOT) for key in found):
        raise Conflict(f"{values[source]} holds nothing of the original's: no keys under contiv.io")
    return found


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise UsageError(f"--from-file {path}: {exc}") from exc


def _uplink_macs(text: str) -> dict[str, str]:
    found = {}
    for item in filter(None, text.split(",")):
        label, _, mac = item.rpartition("=")
        if not label or not _MAC.fullmatch(mac):
            raise UsageError(f"--uplink-mac {item}: want LABEL=MAC, as in host1=02:00:00:00:00:01")
        found[label] = mac.lower()
    return found


def _check_known(found: Mapping[str, bytes], leave_out: frozenset[str]) -> None:
    unknown = sorted(leave_out - found.keys())
    if unknown:
        raise UsageError(f"--leave-out {unknown[0]}: the original has no such key")


def _report(translation: Translation) -> Iterator[str]:
    for what, count in translation.counts.items():
        yield f"to import: {count} {what}"
    yield from summary(translation.skipped)
    order = list(TakeoverOutcome)
    yield from map(str, sorted(translation.findings, key=lambda one: order.index(one.outcome)))
