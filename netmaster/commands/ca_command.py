"""The command `netmaster ca`: files and arguments around `netmaster.commands.ca`.

`ca init DIR` makes an authority in a private directory. `ca issue DIR …` writes the three files
that a daemon or user names with --tls-ca, --tls-cert and --tls-key; repeated with the same --out,
it replaces those of a running daemon.
"""

import argparse
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from core.errors import ContivError, UsageError
from daemons.certificates import pem_files
from daemons.certificates.peers import Role
from daemons.certificates.pem_files import AUTHORITY, CERTIFICATE, KEY
from netmaster.commands import ca
from netmaster.commands.ca import CertificateRequest, KeyPair

AUTHORITY_KEY: Final = "ca-key.pem"


class FilesRefused(ContivError):
    """A file of the authority or of a certificate cannot be read or written, or is in the way."""


def run(arguments: Sequence[str], now: Callable[[], datetime] | None = None) -> None:
    """Do what the words after `netmaster ca` say. `now` is for tests.

    Raises UsageError, FilesRefused, or Invalid for a certificate that cannot be issued.
    """
    given = _parser().parse_args(list(arguments))
    clock = now or _utc_clock
    if given.command == "init":
        initialize(given.directory, clock())
        sys.stdout.write(f"{given.directory / AUTHORITY}\n")
        return
    request = CertificateRequest(
        role=Role(given.role), name=given.name, addresses=given.address, days=given.days
    )
    issue(given.directory, request, given.out, clock(), trusted=given.trust)
    for name in (AUTHORITY, CERTIFICATE, KEY):
        sys.stdout.write(f"{given.out / name}\n")


def initialize(directory: Path, now: datetime) -> None:
    """Make an authority in a directory. Raises FilesRefused if it has one already."""
    with _refusing(directory):
        directory.mkdir(mode=pem_files.DIRECTORY, parents=True, exist_ok=True)
        mode = stat.S_IMODE(directory.stat().st_mode)
        if mode & 0o077:
            # The mode of a directory that exists is not changed: it may be /etc.
            raise FilesRefused(
                f"{directory}: others may enter it (mode {mode:o}): use a directory of its own, "
                f"or `chmod 700 {directory}`"
            )
        authority = ca.new_authority(now)
        _create(directory / AUTHORITY_KEY, authority.key, pem_files.PRIVATE)
        _create(directory / AUTHORITY, authority.certificate, pem_files.PUBLIC)
        pem_files.sync(directory)


def issue(
    directory: Path,
    request: CertificateRequest,
    out: Path,
    now: datetime,
    *,
    trusted: Sequence[Path] = (),
) -> None:
    """Issue a certificate by the authority in a directory; write it and its key to `out`.

    `out` gets the authority's certificate as well, and those in the files `trusted`. Each file is
    replaced as a whole. Raises FilesRefused, or Invalid as `ca.issue` and `ca.bundle`.
    """
    authority = KeyPair(_read(directory / AUTHORITY), _read(directory / AUTHORITY_KEY))
    issued = ca.issue(authority, request, now)
    authorities = ca.bundle([authority.certificate, *map(_read, trusted)])
    with _refusing(out):
        pem_files.write_set(
            out, key=issued.key, certificate=issued.certificate, authority=authorities
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"Incorrect Usage. {message}\n{self.format_usage().rstrip()}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="netmaster ca", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="init|issue")
    init = commands.add_parser("init", help="make a certificate authority", allow_abbrev=False)
    init.add_argument("directory", type=Path, metavar="DIR", help="its directory, mode 0700")
    issuing = commands.add_parser(
        "issue", help="issue a key and a certificate, or replace them", allow_abbrev=False
    )
    issuing.add_argument("directory", type=Path, metavar="DIR", help="the authority's directory")
    issuing.add_argument("--role", required=True, choices=[str(role) for role in Role])
    issuing.add_argument(
        "--name", required=True, help="host label of an agent, else name of the master or user"
    )
    issuing.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="IP|NAME",
        help="address that a master or agent is reached at; may be repeated",
    )
    issuing.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    issuing.add_argument(
        "--days", type=int, default=ca.DAYS, help=f"days of validity (default: {ca.DAYS})"
    )
    issuing.add_argument(
        "--trust",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="another authority's certificate to trust, while one replaces the other",
    )
    return parser


def _read(path: Path) -> bytes:
    with _refusing(path):
        return path.read_bytes()


def _create(path: Path, content: bytes, mode: int) -> None:
    # O_EXCL: an authority's key that is overwritten makes all its certificates useless.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, mode)
    except FileExistsError as exc:
        raise FilesRefused(f"{path} exists: an authority is never overwritten") from exc
    pem_files.write(descriptor, content, mode)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn an OSError about a path into FilesRefused."""
    try:
        yield
    except OSError as exc:
        raise FilesRefused(f"{exc.filename or path}: {exc.strerror or exc}") from exc


def _utc_clock() -> datetime:
    return datetime.now(UTC)
