"""A cluster of Kubernetes without another name server: what `dig` says in a pod."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
)
from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.kube_site import api_beside, api_flags, forward

pytestmark = [pytest.mark.system, pytest.mark.ovs]

OWN = "10.96.0.2"
HTTP = {"name": "http", "port": 80, "protocol": "TCP"}


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough: names are the same on every host."""
    return 1


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Make the agent the pods' name server."""
    own = ["--dns-address", OWN, "--dns-upstream", FABRIC_ADDRESS, "--dns-rate", "0"]
    return {"netplugin": [*api_flags(tmp_path_factory), *own]}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server, with a service of either kind."""
    forward(bed)
    with api_beside(bed, "apis/policy.networking.k8s.io/v1alpha1") as api:
        api.put(SERVICES, "default", "web", **service("10.96.0.10", HTTP))
        api.put(SERVICES, "default", "db", **service("None", HTTP))
        ready = endpoint_slice("db", "192.0.2.1", "192.0.2.2", ports=[HTTP | {"port": 8080}])
        api.put(SLICES, "default", "db-a", **ready)
        yield api


@pytest.fixture
def pod(bed: Bed, api: ApiServer) -> Iterator[Pod]:
    assert bed.api is api, "kubelet tells the server of pods"
    (host,) = bed.hosts
    pod = bed.add_pod(host, "asker")
    yield pod
    bed.delete_pod(pod)


def dig(pod: Pod, *words: str) -> list[str]:
    """Return what dig prints of an answer, in order; nothing without one."""
    done = pod.namespace.run(["dig", f"@{OWN}", "+tries=1", "+time=2", *words], check=False)
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
@pytest.mark.usefixtures("api")
def test_names_of_a_cluster(pod: Pod, transport: str) -> None:
    def said(*words: str) -> list[str]:
        return dig(pod, transport, "+short", *words)

    members = ["192.0.2.1", "192.0.2.2"]
    # services and their endpoints come by watches of their own: both must be there
    eventually(lambda: said("db.default.svc.cluster.local") == members, "endpoints are known")
    eventually(lambda: said("web.default.svc.cluster.local") == ["10.96.0.10"], "services are")
    own = "web.default.svc.cluster.local."
    assert said("_http._tcp.web.default.svc.cluster.local", "SRV") == [f"0 100 80 {own}"]
    assert said("-x", "10.96.0.10") == [own]
    assert said("192-0-2-1.db.default.svc.cluster.local") == ["192.0.2.1"]
    assert said("-x", "192.0.2.2") == ["192-0-2-2.db.default.svc.cluster.local."]
    assert said("_http._tcp.db.default.svc.cluster.local", "SRV") == [
        "0 50 8080 192-0-2-1.db.default.svc.cluster.local.",
        "0 50 8080 192-0-2-2.db.default.svc.cluster.local.",
    ]
    assert said("10-1-2-3.default.pod.cluster.local") == ["10.1.2.3"]
    assert said("dns-version.cluster.local", "TXT") == ['"1.1.0"']
    nothing = "\n".join(dig(pod, transport, "www.example.com.default.svc.cluster.local"))
    assert "status: NXDOMAIN" in nothing
    assert "cluster.local.\t\t5\tIN\tSOA" in nothing
    search = ["+search", "+domain=default.svc.cluster.local", "+ndots=5", "web"]
    assert said(*search) == ["10.96.0.10"]


@contextmanager
def outside(bed: Bed, log: Path | None = None) -> Iterator[None]:
    """Run a name server outside, which knows `example.com` and logs what it is asked."""
    command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root"]
    command += ["--pid-file=", "--address=/example.com/192.0.2.9", "--bind-interfaces"]
    command += [f"--listen-address={FABRIC_ADDRESS}", "--conf-file=/dev/null"]
    if log is not None:
        command += ["--log-queries", f"--log-facility={log}"]
    server = bed.fabric.namespace.popen(command)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
@pytest.mark.usefixtures("api")
def test_names_outside(bed: Bed, pod: Pod, transport: str) -> None:
    with outside(bed):
        wanted = ["192.0.2.9"]
        eventually(
            lambda: dig(pod, transport, "+short", "www.example.com") == wanted, "it is asked"
        )
    failed = "\n".join(dig(pod, transport, "+time=5", "www.example.com"))
    assert "status: SERVFAIL" in failed


def reaches_outside(bed: Bed, pod: Pod) -> bool:
    return pod.ping(bed.fabric.address) is not None


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
@pytest.mark.usefixtures("pod")
def test_hosts_have_names_too(bed: Bed, transport: str) -> None:
    """The host itself, as pods in its network with `dnsPolicy: ClusterFirstWithHostNet`."""
    (host,) = bed.hosts

    def said(*words: str) -> list[str]:
        asks = ["dig", f"@{OWN}", "+tries=1", "+time=2", "+short", transport, *words]
        return host.namespace.run(asks, check=False).stdout.splitlines()

    eventually(lambda: said("web.default.svc.cluster.local") == ["10.96.0.10"], "services")
    assert said("-x", "10.96.0.10") == ["web.default.svc.cluster.local."]
    with outside(bed):
        eventually(lambda: said("www.example.com") == ["192.0.2.9"], "names outside")
        assert said("asker") == [], "bare names are for pods"


def test_nobody_but_the_host_reaches_the_ports_for_its_questions(bed: Bed) -> None:
    (host,) = bed.hosts
    ask = ["dig", f"@{OWN}", "+tries=1", "+time=1", "web.default.svc.cluster.local"]
    bed.fabric.namespace.run(["ip", "route", "replace", OWN, "via", host.address])
    try:
        assert bed.fabric.namespace.run(ask, check=False).returncode
    finally:
        bed.fabric.namespace.run(["ip", "route", "del", OWN])


DENY = {"podSelector": {}, "policyTypes": ["Egress"]}
ASKS = {"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}


def test_what_a_pod_may_not_send_it_cannot_ask(
    bed: Bed, api: ApiServer, pod: Pod, tmp_path: Path
) -> None:
    log = tmp_path / "asked"
    transports = ("+notcp", "+tcp")
    own = "web.default.svc.cluster.local"

    def said(transport: str, name: str) -> list[str]:
        return dig(pod, transport, "+short", name)

    def says(transport: str, name: str, wanted: str) -> bool:
        return said(transport, name) == [wanted]

    def heard(name: str) -> bool:
        return log.exists() and name in log.read_text()

    api.put(
        SERVICES, "default", "pay", spec={"type": "ExternalName", "externalName": "pay.example.com"}
    )
    alias = "pay.default.svc.cluster.local"
    with outside(bed, log):
        for transport in transports:
            eventually(partial(says, transport, "open.example.com", "192.0.2.9"), "it is asked")
        eventually(lambda: "192.0.2.9" in said("+notcp", alias), "so are aliases")
        assert heard("open.example.com")
        assert heard("pay.example.com")
        eventually(lambda: reaches_outside(bed, pod), "nothing denies it")
        log.write_text("")
        api.put(NETWORK_POLICIES, "default", "deny", spec=DENY)
        try:
            eventually(lambda: not reaches_outside(bed, pod), "nothing leaves the pod")
            for number, transport in enumerate(transports):
                for name in (f"secret-{number}.example.com", alias, own):
                    # dig says what went wrong in a line of its own
                    assert not [line for line in said(transport, name) if line[:1] != ";"], name
            assert not heard("secret")
            assert not heard("pay.example.com")
            to_server = {"to": [{"ipBlock": {"cidr": f"{OWN}/32"}}], "ports": list(ASKS)}
            api.put(NETWORK_POLICIES, "default", "dns", spec={**DENY, "egress": [to_server]})
            for transport in transports:
                eventually(partial(says, transport, own, "10.96.0.10"), "it may ask")
                # more than one packet either way
                assert said(transport, "again.example.com") == ["192.0.2.9"]
            assert not reaches_outside(bed, pod)
        finally:
            api.delete(NETWORK_POLICIES, "default", "deny")
            api.delete(NETWORK_POLICIES, "default", "dns")
            api.delete(SERVICES, "default", "pay")


TRANSPORTS = ("+notcp", "+tcp")
WEB, WEB_ADDRESS = "web.default.svc.cluster.local", "10.96.0.10"


def may_ask(pod: Pod) -> bool:
    return all(dig(pod, one, "+short", WEB) == [WEB_ADDRESS] for one in TRANSPORTS)


def may_not_ask(pod: Pod) -> bool:
    """Say whether no question is answered; dig says why in lines of its own."""
    return not any(line[:1] != ";" for one in TRANSPORTS for line in dig(pod, one, "+short", WEB))


def test_administrators_policies_judge_questions(bed: Bed, api: ApiServer, pod: Pod) -> None:
    everything: dict[str, Any] = {"namespaces": {}}
    numbers = [{"portNumber": {"protocol": one, "port": 53}} for one in ("UDP", "TCP")]
    anywhere = {"networks": ["0.0.0.0/0"]}
    rule = {"to": [{"networks": [f"{OWN}/32"]}], "ports": numbers}

    def administrator(*rules: Mapping[str, Any]) -> None:
        spec = {"subject": everything, "priority": 5, "egress": list(rules)}
        api.put(ADMIN_POLICIES, "", "dns", spec=spec)

    eventually(lambda: may_ask(pod) and reaches_outside(bed, pod), "nothing denies it")
    try:
        administrator({"action": "Deny", **rule})
        eventually(lambda: may_not_ask(pod), "it is denied")
        assert reaches_outside(bed, pod), "nothing else is"
        administrator({"action": "Allow", **rule}, {"action": "Deny", "to": [anywhere]})
        eventually(lambda: may_ask(pod), "it is allowed")
        eventually(lambda: not reaches_outside(bed, pod), "nothing else is")
        api.delete(ADMIN_POLICIES, "", "dns")
        last = {"subject": everything, "egress": [{"action": "Deny", "to": [anywhere]}]}
        api.put(BASELINE_POLICIES, "", "default", spec=last)
        eventually(lambda: may_not_ask(pod), "the baseline denies it")
        administrator({"action": "Allow", **rule})
        eventually(lambda: may_ask(pod), "the administrator allows it before that")
    finally:
        for resource, key in [one for one in api.objects if "adminnetworkpolic" in one[0]]:
            api.delete(resource, "", key.rpartition("/")[2])


@pytest.mark.usefixtures("api")
def test_rules_of_groups_judge_questions(bed: Bed) -> None:
    (host,) = bed.hosts

    def add(number: int, priority: int, action: str, *words: str) -> None:
        numbered = ("asking", str(number), "-p", str(priority))
        bed.netctl("policy", "rule-add", *numbered, "-d", "out", "-j", action, *words)

    to_server = [("-l", one, "-P", "53", "-s", OWN) for one in ("udp", "tcp")]
    bed.netctl("policy", "create", "asking")
    bed.netctl("group", "create", "-p", "asking", "default-net", "askers")
    pod = bed.add_pod(host, "grouped", labels={"io.contiv.net-group": "askers"})
    try:
        eventually(lambda: may_ask(pod) and reaches_outside(bed, pod), "nothing denies it")
        for number, words in enumerate(to_server, 1):
            add(number, 1, "deny", *words)
        eventually(lambda: may_not_ask(pod), "it is denied")
        assert reaches_outside(bed, pod), "nothing else is"
        add(3, 1, "deny")
        for number, words in enumerate(to_server, 4):
            add(number, 2, "allow", *words)
        eventually(lambda: may_ask(pod), "it is allowed")
        assert not reaches_outside(bed, pod), "nothing else is"
    finally:
        bed.delete_pod(pod)
        bed.netctl("group", "rm", "askers")
        bed.netctl("policy", "rm", "asking")
