"""`netmaster kube-certificates`: the certificates of an installation on Kubernetes.

It runs beside each netmaster and beside the store of `deploy/kubernetes`. The first one of the
cluster makes two authorities and keeps them in a Secret that the masters' service account alone may
read; all of them write certificates of their own pod below `--out` and replace them in time, and
those beside masters sign what agents ask for (`netmaster.commands.agent_requests`). Agents find the
authorities' certificates in a ConfigMap. Repeated steps change nothing, so any number may run.
"""

# Two authorities, since the store asks a client for no more than a certificate: one of a user of
# REST, a reader's for instance, must not be one for the store.

import argparse
import base64
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from core.end_signal import told_to_end
from core.errors import ContivError, Invalid
from core.logs import fields
from daemons.certificates import enrolment, pem_files
from daemons.certificates.certificate_requests import renewal_is_due
from daemons.certificates.peers import Role
from daemons.kube_rest import KubeRest, RestRefused
from netmaster.commands import agent_requests, ca
from netmaster.commands.ca import CertificateRequest, KeyPair

log = logging.getLogger(__name__)

NAME: Final = "contiv-authority"
"""Of the Secret with the authorities, and of the ConfigMap with their certificates."""
INTERVAL: Final = 2.0
"""Seconds between looks at what agents have asked for."""
CLUSTER: Final = "cluster"
STORE: Final = "store"
_SIGNED_BY: Final = {enrolment.SIGNER_AGENT: CLUSTER, enrolment.SIGNER_STORE: STORE}

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A certificate of this pod: its directory below `--out`, its authority, and whose it is."""

    directory: str
    authority: str
    role: Role
    name: str


OWN: Final = (
    Own(directory="master", authority=CLUSTER, role=Role.MASTER, name="netmaster"),
    Own(directory="admin", authority=CLUSTER, role=Role.ADMIN, name="kubectl-exec"),
    Own(directory="store", authority=STORE, role=Role.MASTER, name="netmaster"),
)
"""`admin` is for netctl, by those who may execute commands in the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The certificates of one pod and those it signs. `now` is a clock."""

    api: KubeRest
    namespace: str
    out: Path
    own: Sequence[Own]
    addresses: Sequence[str]
    days: int
    now: Callable[[], datetime]

    def authorities(self) -> dict[str, KeyPair]:
        """Return the cluster's authorities, made first if there are none.

        Raises ContivError.
        """
        found = self._secret() or self._made()
        if found is None:  # another pod made them at the same time
            found = self._secret()
        if found is None:
            raise Invalid(f"the Secret {NAME} of {self.namespace} was deleted just now")
        return found

    def publish(self, authorities: Mapping[str, KeyPair]) -> None:
        """Keep the ConfigMap with the authorities' certificates. Raises ContivError."""
        data = {f"{name}.pem": pair.certificate.decode() for name, pair in authorities.items()}
        collection = f"/api/v1/namespaces/{self.namespace}/configmaps"
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        there = self.api.get(f"{collection}/{NAME}")
        if there is None:
            self.api.create(collection, wanted)
        elif there.get("data") != data:
            self.api.replace(f"{collection}/{NAME}", {**there, "data": data})

    def renew(self, authorities: Mapping[str, KeyPair]) -> None:
        """Write this pod's certificates that are missing or near their end. Raises ContivError."""
        for own in self.own:
            directory = self.out / own.directory
            if not renewal_is_due(pem_files.certificate_in(directory), self.now()):
                continue
            authority = authorities[own.authority]
            listens = own.role is Role.MASTER
            request = CertificateRequest(
                role=own.role,
                name=own.name,
                addresses=self.addresses if listens else (),
                days=self.days,
            )
            issued = ca.issue(authority, request, self.now())
            pem_files.write_set(
                directory,
                key=issued.key,
                certificate=issued.certificate,
                authority=authority.certificate,
            )
            log.info("certificate written", extra=fields(directory=directory, role=own.role))

    def sign(self, authorities: Mapping[str, KeyPair]) -> None:
        """Decide about the requests of agents that wait. Raises ContivError."""
        for signer, authority in _SIGNED_BY.items():
            listed = self.api.get(f"{enrolment.API}?fieldSelector=spec.signerName%3D{signer}") or {}
            for request in listed.get("items") or ():
                if enrolment.is_pending(request):
                    self._answer(request, authorities[authority])

    def _answer(self, request: Object, authority: KeyPair) -> None:
        name = request["metadata"]["name"]
        try:
            issued, whose = self._signed(request, authority)
        except Invalid as exc:
            log.warning("certificate request denied", extra=fields(request=name, error=exc))
            self._approve(request, "Denied", str(exc))
            return
        approved = self._approve(request, "Approved", f"the agent of node {whose}")
        if approved is None:
            return  # another master decided meanwhile
        approved["status"]["certificate"] = base64.b64encode(issued).decode()
        if self.api.replace(f"{enrolment.API}/{name}/status", approved) is not None:
            log.info("certificate issued", extra=fields(request=name, node=whose))

    def _signed(self, request: Object, authority: KeyPair) -> tuple[bytes, str]:
        pod = agent_requests.pod_of(request, self.namespace)
        there = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
        granted = agent_requests.grant(request, there, self.days)
        pem = enrolment.decoded(request["spec"].get("request"))
        return ca.sign(authority, pem, granted, self.now()), granted.name

    def _approve(self, request: Object, kind: str, message: str) -> Object | None:
        """Add a condition, unless it is there: a master ended before it had signed."""
        status = request.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        if any(one.get("type") == kind for one in conditions):
            return request
        conditions.append(
            {"type": kind, "status": "True", "reason": "Contiv", "message": message[:1024]}
        )
        return self.api.replace(f"{enrolment.API}/{request['metadata']['name']}/approval", request)

    def _secret(self) -> dict[str, KeyPair] | None:
        there = self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{NAME}")
        if there is None:
            return None
        data = there.get("data") or {}
        return {
            name: KeyPair(
                enrolment.decoded(data.get(f"{name}.pem")),
                enrolment.decoded(data.get(f"{name}-key.pem")),
            )
            for name in (CLUSTER, STORE)
        }

    def _made(self) -> dict[str, KeyPair] | None:
        made = {name: ca.new_authority(self.now()) for name in (CLUSTER, STORE)}
        data = {f"{name}.pem": pair.certificate for name, pair in made.items()}
        data |= {f"{name}-key.pem": pair.key for name, pair in made.items()}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": NAME},
            "data": {name: base64.b64encode(content).decode() for name, content in data.items()},
        }
        created = self.api.create(f"/api/v1/namespaces/{self.namespace}/secrets", secret)
        if created is None:
            return None
        log.info("authorities made", extra=fields(secret=NAME, namespace=self.namespace))
        return made


def run(arguments: Sequence[str]) -> None:
    """Do what the words after `netmaster kube-certificates` say. Raises ContivError."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    given = _parser().parse_args(list(arguments))
    certificates = Certificates(
        api=KubeRest.of_pod(os.environ),
        namespace=given.namespace,
        out=given.out,
        own=[own for own in OWN if own.directory in (given.own or [])],
        addresses=given.address,
        days=given.days,
        now=lambda: datetime.now(UTC),
    )
    told = told_to_end()
    while not told.is_set():
        if _step(certificates, sign=given.sign) and given.once:
            return
        told.wait(INTERVAL)


def _step(certificates: Certificates, *, sign: bool) -> bool:
    """Do everything once; return whether it was done. What fails is logged, and done later."""
    try:
        authorities = certificates.authorities()
        certificates.publish(authorities)
        certificates.renew(authorities)
        if sign:
            certificates.sign(authorities)
    except (ContivError, OSError) as exc:
        log.warning("certificates not in order, retrying: %s%s", exc, _remedy(exc))
        return False
    return True


def _remedy(error: Exception) -> str:
    if isinstance(error, RestRefused) and error.status == 403:
        return "; compare the roles of the service account with deploy/kubernetes"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netmaster kube-certificates", allow_abbrev=False)
    parser.add_argument("--namespace", required=True, help="the namespace of the installation")
    parser.add_argument("--out", type=Path, required=True, help="directory of this pod's files")
    parser.add_argument(
        "--own",
        action="append",
        choices=[own.directory for own in OWN],
        help="a certificate to write there; may be repeated",
    )
    parser.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="IP|NAME",
        help="address that this pod is reached at; may be repeated",
    )
    parser.add_argument(
        "--days", type=int, default=ca.DAYS, help=f"days of validity (default: {ca.DAYS})"
    )
    parser.add_argument("--sign", action="store_true", help="sign what agents ask for, too")
    parser.add_argument("--once", action="store_true", help="end when the files are there")
    return parser
