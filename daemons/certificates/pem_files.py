"""The three PEM files of a certificate: their names, and writing them so that readers never tear.

In come bytes; out come files that `daemons.certificates.tls` reads. The commands `netmaster ca`,
`netmaster kube-certificates` and `netplugin enrol` write by this module.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

AUTHORITY: Final = "ca.pem"
CERTIFICATE: Final = "cert.pem"
KEY: Final = "key.pem"
PUBLIC: Final = 0o644
PRIVATE: Final = 0o600
DIRECTORY: Final = 0o700


def write_set(directory: Path, *, key: bytes, certificate: bytes, authority: bytes) -> None:
    """Replace the three files in a directory, which is made, each as a whole. Raises OSError."""
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    contents = (
        (KEY, key, PRIVATE),
        (CERTIFICATE, certificate, PUBLIC),
        (AUTHORITY, authority, PUBLIC),
    )
    _replace(directory, contents)


def certificate_in(directory: Path) -> bytes:
    """Return the certificate in a directory, b"" if there is none that can be read."""
    try:
        return (directory / CERTIFICATE).read_bytes()
    except OSError:
        return b""


def write(descriptor: int, content: bytes, mode: int) -> None:
    """Write a new file, with its mode, to the disk; close it. Raises OSError."""
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # the umask may have removed bits
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def sync(directory: Path) -> None:
    """Write a directory's entries to the disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(directory: Path, contents: Sequence[tuple[str, bytes, int]]) -> None:
    written: list[tuple[Path, Path]] = []
    try:
        # All are written before the first is renamed, so that a full disk replaces none, and a
        # daemon that starts in between seldom meets a key of another certificate. A running one
        # keeps the former set until the three fit (`daemons.certificates.tls`).
        for name, content, mode in contents:
            descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".new-")
            written.append((Path(temporary), directory / name))
            write(descriptor, content, mode)
        for fresh, path in written:
            fresh.replace(path)
    finally:
        for fresh, _ in written:
            fresh.unlink(missing_ok=True)
    sync(directory)
