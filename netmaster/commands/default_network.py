"""`netmaster default-network`: makes the network of pods without labels, on Kubernetes.

It runs beside each netmaster of `deploy/kubernetes`, whose settings come as variables of the
environment. As soon as a master leads it makes the network, unless one of that name is there,
whatever it is like. Then it writes the file of `--made`, by which its container is known to be
ready, and waits for its end: a Job would not do, whose image cannot be changed by an upgrade.
"""

import argparse
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from core.end_signal import told_to_end
from core.errors import ContivError, HostError, UsageError
from core.ids import DEFAULT_NETWORK, DEFAULT_TENANT
from core.patience import patient

log = logging.getLogger(__name__)

INTERVAL: Final = 2.0
"""Seconds between tries."""
_LIMIT: Final = patient(60.0)
_ENCAP: Final = "CONTIV_NETMASTER_NET_MODE"
_FOUR: Final = {"--subnet": "POD_SUBNET", "--gateway": "POD_GATEWAY"}
_SIX: Final = {"--subnetv6": "POD_SUBNET6", "--gatewayv6": "POD_GATEWAY6"}
_FIRST: Final = {"--first-family": "POD_FIRST_FAMILY"}


def network_words(environ: Mapping[str, str]) -> list[str]:
    """Return the words after `netctl` that make the network. Raises UsageError."""
    needed = [_ENCAP] if environ.get(_SIX["--subnetv6"]) else [_ENCAP, *_FOUR.values()]
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise UsageError(f"{', '.join(missing)} must be set; POD_SUBNET6 is enough for IPv6 alone")
    named = {"--encap": _ENCAP, **_FOUR, **_SIX, **_FIRST}
    given = {flag: environ.get(name, "") for flag, name in named.items()}
    flags = [word for flag, value in given.items() if value for word in (flag, value)]
    return ["network", "create", "-t", DEFAULT_TENANT, *flags, DEFAULT_NETWORK]


def run(arguments: Sequence[str], interval: float = INTERVAL) -> int:
    """Do what the words after `netmaster default-network` say; return the exit code.

    `interval` is the pause between tries, in seconds.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        _keep(_parser().parse_args(list(arguments)).made, network_words(os.environ), interval)
    except (ContivError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code if isinstance(exc, ContivError) else 1
    return 0


def _keep(made: Path, create: Sequence[str], interval: float) -> None:
    told = told_to_end()
    while not told.is_set():
        if _made(create):
            made.touch()
            told.wait()
        told.wait(interval)


def _made(create: Sequence[str]) -> bool:
    """Make the network if it is not there; return whether it is. What fails is logged."""
    look = ["network", "inspect", "-t", DEFAULT_TENANT, DEFAULT_NETWORK]
    if not _refusal(look):
        return True
    why = _refusal(create)
    if why:
        log.warning("no network yet, retrying: %s", why)
    return not why


def _refusal(words: Sequence[str]) -> str:
    """Run netctl; return why it failed, "" if it did not. Raises HostError if it is missing."""
    program = shutil.which("netctl")
    if program is None:
        raise HostError("netctl is not installed beside netmaster")
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments that this module builds
            [program, *words], capture_output=True, text=True, check=False, timeout=_LIMIT
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return str(exc)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netmaster default-network", allow_abbrev=False)
    parser.add_argument(
        "--made", type=Path, required=True, help="file to write when the network is there"
    )
    return parser
