"""`netplugin enrol`: the certificates of a node's agent in a cluster of Kubernetes.

It runs beside the agent. Keys are made here and never leave the node; a master signs what is asked
for with the token of this pod (`daemons.certificates.enrolment`). Out come the files that the
agent's `--tls-*` and `--store-*` flags name, replaced when two thirds of their time are over.
`netplugin.entry` runs it without the agent's modules.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from core.end_signal import told_to_end
from core.errors import Conflict, ContivError, OrchestratorUnavailable
from core.logs import fields
from daemons.certificates import enrolment, pem_files
from daemons.certificates.certificate_requests import new_request, renewal_is_due
from daemons.kube_rest import KubeRest

log = logging.getLogger(__name__)

ENROL: Final = "enrol"
INTERVAL: Final = 10.0
"""Seconds between looks at what is there."""
POLL: Final = 1.0
PATIENCE: Final = 60.0
"""Seconds that a request waits for its signer before another one is made."""

DIRECTORIES: Final = {enrolment.SIGNER_AGENT: "agent", enrolment.SIGNER_STORE: "store"}
"""Where the certificate of each signer is, below `--out`."""
AUTHORITIES: Final = {enrolment.SIGNER_AGENT: "cluster.pem", enrolment.SIGNER_STORE: "store.pem"}
"""The certificate of each signer, below `--authorities`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """The certificates of one agent. `now` is a clock, `wait` sleeps and says whether to go on."""

    api: KubeRest
    out: Path
    authorities: Path
    now: Callable[[], datetime]
    wait: Callable[[float], bool]

    def keep(self) -> None:
        """Get the certificates that are missing or near their end. Raises ContivError, OSError."""
        for signer in enrolment.SIGNERS:
            directory = self.out / DIRECTORIES[signer]
            if renewal_is_due(pem_files.certificate_in(directory), self.now()):
                self._get(signer, directory)

    def _get(self, signer: str, directory: Path) -> None:
        key, pem = new_request()
        made = self.api.create(enrolment.API, enrolment.request_object(signer, pem))
        if made is None:
            raise Conflict("another certificate request has this name")
        certificate = self._issued(made["metadata"]["name"])
        authority = (self.authorities / AUTHORITIES[signer]).read_bytes()
        pem_files.write_set(directory, key=key, certificate=certificate, authority=authority)
        log.info("certificate written", extra=fields(directory=directory, signer=signer))

    def _issued(self, name: str) -> bytes:
        """Wait for a request's certificate. Raises ContivError."""
        waited = 0.0
        while waited < PATIENCE and self.wait(POLL):
            waited += POLL
            request = self.api.get(f"{enrolment.API}/{name}")
            if request is None:
                break
            certificate = enrolment.certificate_in(request)
            if certificate is not None:
                return certificate
        raise OrchestratorUnavailable(
            f"no master signed the certificate request {name}: is contiv-netmaster running, and "
            "what does its container certificates log?"
        )


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = _parser().parse_args(arguments)
    told = told_to_end()
    try:
        enrolled = Enrolment(
            api=KubeRest.of_pod(os.environ),
            out=options.out,
            authorities=options.authorities,
            now=lambda: datetime.now(UTC),
            wait=lambda seconds: not told.wait(seconds),
        )
    except ContivError as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    while not told.is_set():
        try:
            enrolled.keep()
        except (ContivError, OSError) as exc:
            log.warning("certificates not in order, retrying: %s", exc)
            told.wait(POLL)
            continue
        if options.once:
            return 0
        told.wait(INTERVAL)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"netplugin {ENROL}", allow_abbrev=False)
    parser.add_argument("command", choices=[ENROL], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, required=True, help="directory of the agent's files")
    parser.add_argument(
        "--authorities",
        type=Path,
        required=True,
        help="directory with cluster.pem and store.pem, of the ConfigMap contiv-authority",
    )
    parser.add_argument("--once", action="store_true", help="end when the files are there")
    return parser
