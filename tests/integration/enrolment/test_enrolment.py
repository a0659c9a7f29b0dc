"""Certificates of an installation on Kubernetes: made once, given by tokens, replaced in time."""

import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from core.errors import Conflict, OrchestratorUnavailable
from daemons.certificates import enrolment
from daemons.certificates.peers import PeerIdentity, Role
from daemons.certificates.tls import TlsFiles
from daemons.kube_rest import KubeRest, RestRefused
from netmaster.commands.kube_certificates import OWN, Certificates
from netplugin.commands.enrol import Enrolment
from tests.bed.certificates import make_certificates
from tests.integration.enrolment.objects_server import ApiObjects, Caller, ObjectsServer
from tests.unit.certificates import met, raw_client

SYSTEM = "contiv-system"
PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
MASTER = Caller(
    f"system:serviceaccount:{SYSTEM}:contiv-certificates",
    may=(
        *(("GET", path) for path in ("/api/v1/", enrolment.API)),
        *(("POST", f"/api/v1/namespaces/{SYSTEM}/{kind}") for kind in ("secrets", "configmaps")),
        ("PUT", f"/api/v1/namespaces/{SYSTEM}/configmaps/"),
        ("PUT", f"{enrolment.API}/"),
    ),
)
MAY_ASK = (("POST", enrolment.API), ("GET", f"{enrolment.API}/"))
AGENTS = enrolment.ACCOUNT.format(namespace=SYSTEM)


@dataclass
class EnrolmentHost:
    """An API server, and what runs beside it."""

    directory: Path
    url: str
    objects: ApiObjects
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    waits: list[Callable[[], None]] = field(default_factory=list)

    def api(self, token: str) -> KubeRest:
        account = self.directory / f"account-{token}"
        account.mkdir(exist_ok=True)
        (account / "token").write_text(f"{token}\n")
        (account / "ca.crt").write_text((self.directory / "ca.pem").read_text())
        return KubeRest(self.url, account)

    def master(self, name: str = "m1", days: int = 365) -> Certificates:
        return Certificates(
            api=self.api("master"),
            namespace=SYSTEM,
            out=self.directory / name,
            own=OWN,
            addresses=["192.0.2.9"],
            days=days,
            now=lambda: self.clock(),  # noqa: PLW0108 - tests set it later
        )

    def agent(self, token: str = "agent1", signing: Certificates | None = None) -> Enrolment:
        """Return an agent; a master signs whenever it waits."""

        def wait(_: float) -> bool:
            if signing is not None:
                signing.sign(signing.authorities())
            return True

        return Enrolment(
            api=self.api(token),
            out=self.directory / token,
            authorities=self.directory / "authorities",
            now=lambda: self.clock(),  # noqa: PLW0108 - tests set it later
            wait=wait,
        )

    def mount(self) -> None:
        """Do what kubelet does with the ConfigMap of the authorities."""
        directory = self.directory / "authorities"
        directory.mkdir(exist_ok=True)
        config = self.objects.objects[f"/api/v1/namespaces/{SYSTEM}/configmaps/contiv-authority"]
        for name, content in config["data"].items():
            (directory / name).write_text(content)

    def installed(self) -> Certificates:
        """Return a master that has made the authorities."""
        master = self.master()
        authorities = master.authorities()
        master.publish(authorities)
        master.renew(authorities)
        self.mount()
        return master


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EnrolmentHost]:
    make_certificates(tmp_path)
    callers = {
        "master": MASTER,
        "agent1": Caller(AGENTS, "agent-x", "uid-x", MAY_ASK),
        "agent2": Caller(AGENTS, "agent-y", "uid-y", MAY_ASK),
        "unbound": Caller(AGENTS, "", "", MAY_ASK),
        "stranger": Caller("system:serviceaccount:blue:default", "pod", "uid", MAY_ASK),
    }
    objects = ApiObjects(callers)
    for name, node, address in (("agent-x", "n1", "192.0.2.1"), ("agent-y", "n2", "192.0.2.2")):
        pod = {
            "metadata": {"name": name, "uid": name.replace("agent", "uid")},
            "spec": {"nodeName": node},
            "status": {"hostIP": address, "hostIPs": [{"ip": address}, {"ip": "2001:db8::1"}]},
        }
        objects.put(f"{PODS}/{name}", pod)
    with ObjectsServer(objects, tmp_path) as server:
        yield EnrolmentHost(tmp_path, server.url, objects)


def files(directory: Path) -> TlsFiles:
    return TlsFiles(**{name: str(directory / f"{name}.pem") for name in ("ca", "cert", "key")})


def server(own: TlsFiles) -> ssl.SSLContext:
    """Return the context of a server that asks for certificates of its own authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    context.load_verify_locations(own.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def certificate(directory: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((directory / "cert.pem").read_bytes())


def requests(host: EnrolmentHost) -> list[dict[str, object]]:
    return [one for at, one in host.objects.objects.items() if at.startswith(enrolment.API)]


def test_agents_and_masters_meet_by_what_they_were_given(host: EnrolmentHost) -> None:
    master = host.installed()
    host.agent(signing=master).keep()
    listens, asks = host.directory / "m1" / "master", host.directory / "agent1" / "agent"
    seen = met(raw_client(files(asks)), server(files(listens)), "192.0.2.9")
    assert seen == PeerIdentity(Role.AGENT, "n1", frozenset({"192.0.2.1", "2001:db8::1"}))


def test_a_user_of_rest_is_no_client_of_the_store(host: EnrolmentHost) -> None:
    host.agent(signing=host.installed()).keep()
    store = server(files(host.directory / "m1" / "store"))
    agent, admin = host.directory / "agent1" / "store", host.directory / "m1" / "admin"
    assert isinstance(met(raw_client(files(agent)), store, "192.0.2.9"), PeerIdentity)
    user = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    user.load_verify_locations(files(agent).ca)
    user.load_cert_chain(files(admin).cert, files(admin).key)
    assert isinstance(met(user, store, "192.0.2.9"), str), "why the handshake failed"


def test_all_masters_have_the_same_authorities(host: EnrolmentHost) -> None:
    masters = [host.master(f"m{number}") for number in range(4)]
    found: list[dict[str, object]] = []
    together = threading.Barrier(len(masters))

    def start(master: Certificates) -> None:
        together.wait()
        found.append(dict(master.authorities()))

    threads = [threading.Thread(target=start, args=(master,)) for master in masters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one == found[0] for one in found)


def test_repeated_steps_change_nothing(host: EnrolmentHost) -> None:
    master = host.installed()
    host.agent(signing=master).keep()
    before = host.objects.version, certificate(host.directory / "agent1" / "agent").serial_number
    authorities = master.authorities()
    master.publish(authorities)
    master.renew(authorities)
    master.sign(authorities)
    host.agent(signing=master).keep()
    after = host.objects.version, certificate(host.directory / "agent1" / "agent").serial_number
    assert after == before


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("stranger", "only system:serviceaccount:contiv-system:contiv-netplugin gets one"),
        ("unbound", "is not bound to a pod"),
    ],
)
def test_a_certificate_is_for_the_pod_whose_token_asked(
    host: EnrolmentHost, token: str, why: str
) -> None:
    master = host.installed()
    with pytest.raises(Conflict, match=why):
        host.agent(token, signing=master).keep()
    assert not (host.directory / token).exists()


def test_a_pod_that_has_the_name_of_another_one_gets_none(host: EnrolmentHost) -> None:
    master = host.installed()
    there = host.objects.objects[f"{PODS}/agent-x"]
    there["metadata"]["uid"] = "of the pod that came after"
    with pytest.raises(Conflict, match="a pod that is gone"):
        host.agent(signing=master).keep()


def test_two_masters_that_decide_at_once_give_one_certificate(host: EnrolmentHost) -> None:
    first, second = host.installed(), host.master("m2")
    authorities = first.authorities()
    host.api("agent1").create(
        enrolment.API, enrolment.request_object(enrolment.SIGNER_AGENT, pem_of_a_request())
    )
    (waiting,) = requests(host)
    stale = {**waiting, "metadata": dict(waiting["metadata"])}  # type: ignore[call-overload]
    first.sign(authorities)
    (answered,) = requests(host)
    second._answer(stale, authorities["cluster"])
    assert requests(host) == [answered]


def test_a_master_that_ended_before_it_signed_is_followed_by_another(host: EnrolmentHost) -> None:
    master = host.installed()
    api = host.api("agent1")
    made = api.create(
        enrolment.API, enrolment.request_object(enrolment.SIGNER_AGENT, pem_of_a_request())
    )
    assert made is not None
    name = made["metadata"]["name"]
    assert master._approve(made, "Approved", "by the one that ended") is not None
    assert enrolment.certificate_in(api.get(f"{enrolment.API}/{name}") or {}) is None
    host.master("m2").sign(master.authorities())
    assert enrolment.certificate_in(api.get(f"{enrolment.API}/{name}") or {}) is not None


def test_a_request_that_is_none_is_denied(host: EnrolmentHost) -> None:
    master = host.installed()
    for pem in (b"", b"\xff", b"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n"):
        host.api("agent1").create(
            enrolment.API, enrolment.request_object(enrolment.SIGNER_AGENT, pem)
        )
    master.sign(master.authorities())
    assert len(requests(host)) == 3
    for one in requests(host):
        with pytest.raises(Conflict, match="cannot be read"):
            enrolment.certificate_in(one)


def test_certificates_are_replaced_when_a_third_of_their_time_is_left(host: EnrolmentHost) -> None:
    master = host.installed()
    host.agent(signing=master).keep()
    directories = [host.directory / "m1" / "master", host.directory / "agent1" / "agent"]
    before = [certificate(one).serial_number for one in directories]
    start = datetime.now(UTC)
    for days, replaced in ((240, False), (250, True)):
        now = start + timedelta(days=days)
        host.clock = lambda now=now: now  # type: ignore[misc]
        master.renew(master.authorities())
        host.agent(signing=master).keep()
        after = [certificate(one).serial_number for one in directories]
        assert [new != old for new, old in zip(after, before, strict=True)] == [replaced] * 2


def test_an_agent_without_a_signer_says_what_to_look_at(host: EnrolmentHost) -> None:
    host.installed()
    with pytest.raises(OrchestratorUnavailable, match="is contiv-netmaster running"):
        host.agent().keep()


def test_a_key_never_leaves_its_node(host: EnrolmentHost) -> None:
    master = host.installed()
    host.agent(signing=master).keep()
    key = (host.directory / "agent1" / "agent" / "key.pem").read_text()
    body = key.splitlines()[1]
    assert body not in str(requests(host))


def test_who_has_no_right_is_told(host: EnrolmentHost) -> None:
    with pytest.raises(RestRefused, match="may not GET") as refused:
        host.api("agent1").get(f"/api/v1/namespaces/{SYSTEM}/secrets/contiv-authority")
    assert refused.value.status == 403


def pem_of_a_request() -> bytes:
    from daemons.certificates.certificate_requests import new_request

    return new_request()[1]
