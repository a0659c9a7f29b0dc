"""The commands beside the daemon: backups, imports, users, and the authority of certificates.

`netmaster dump` and `load` (`backup`) write and read a backup on the standard streams; `import`
(`importing`) takes over the store of the original; `accounts` has the commands of users. The
daemon's own flags and environment variables name the store. `netmaster ca` (`ca_command`) and
`netmaster store-acl` (`store_acl`) need none, nor has `netmaster kube-certificates`
(`kube_certificates`), which deploy/kubernetes runs.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from core.version import VERSION
from daemons import flags
from daemons.flags import Flag, Values
from daemons.program import Command
from netmaster.commands import accounts, backup, importing, store_acl
from objdb.api import Backend
from objdb.connect import connect, store_of

REPLACE: Final = Flag(
    names=("replace",), env="REPLACE", help="give up what the store holds", switch=True
)

HELP: Final = {
    "dump": "write a backup of the store to standard output; takes the flags of the store",
    "load": "read one from standard input into an empty store; --replace gives up what it holds",
    "import": "take over what the original keeps, --from-etcd, --from-consul or --from-file, into "
    "an empty store; --dry-run only reports",
}

StoreCommand = Callable[[Backend, Values], Awaitable[None]]


async def _dump(backend: Backend, _: Values) -> None:
    sys.stdout.write(await backup.dump(backend))


async def _load(backend: Backend, values: Values) -> None:
    count = await backup.load(backend, sys.stdin.read(), replace=values.on("replace"))
    sys.stderr.write(f"{count} keys loaded\n")


_ON_STORE: Final[Mapping[str, tuple[StoreCommand, tuple[Flag, ...]]]] = {
    "dump": (_dump, flags.STORE),
    "load": (_load, (*flags.STORE, REPLACE)),
    "import": (importing.run, (*flags.STORE, *importing.FLAGS, REPLACE)),
    **accounts.COMMANDS,
}


def _run_on_store(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    command, known = _ON_STORE[name]
    values = flags.read("netmaster", known, arguments, environ, VERSION, command=name)
    if values is not None:
        asyncio.run(_with_store(command, values))


def _run_authority(arguments: Sequence[str], _: Mapping[str, str]) -> None:
    from netmaster.commands import ca_command  # noqa: PLC0415 - loads cryptography

    ca_command.run(arguments)


def _run_kube_certificates(arguments: Sequence[str], _: Mapping[str, str]) -> None:
    from netmaster.commands import kube_certificates  # noqa: PLC0415 - loads cryptography

    kube_certificates.run(arguments)


def _run_store_acl(arguments: Sequence[str], _: Mapping[str, str]) -> None:
    store_acl.run(arguments)


COMMANDS: Final[Mapping[str, Command]] = {
    **{name: partial(_run_on_store, name) for name in _ON_STORE},
    "ca": _run_authority,
    "kube-certificates": _run_kube_certificates,
    "store-acl": _run_store_acl,
}


async def _with_store(command: StoreCommand, values: Values) -> None:
    backend = connect(store_of(values))
    try:
        await command(backend, values)
    finally:
        await backend.close()
