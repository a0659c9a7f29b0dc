"""Services with real pods, in both forwarding modes and on both kinds of networks.

Servers answer with their pod's name, so that a client sees who served it, and under which name.
"""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.families import FAMILY, subnets
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, applied, planes
from tests.system.rest import ask
from tests.system.services import (
    PATIENCE,
    Talk,
    create_service,
    family_of,
    label,
    pods,
    serving,
    who,
)

pytestmark = [pytest.mark.system]

SILENCE = 1.0


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param) as bed:
        yield bed


@pytest.fixture(autouse=True)
def nothing_left(bed: Bed) -> Iterator[None]:
    """Delete the pods and services of each test."""
    yield
    for pod in list(bed.pods):
        bed.delete_pod(pod)
    for service in ask(bed, "GET", "/api/v1/serviceLBs/").json() or []:
        bed.netctl("service", "rm", "-t", service["tenantName"], service["serviceName"])


def inspected(host: Host, path: str) -> Any:
    _, body = http_request(f"http://127.0.0.1:{AGENT_PORT}{path}", namespace=host.namespace)
    return json.loads(body)


class Talking(NamedTuple):
    """A service, its provider on another host, and clients who talk to either provider."""

    vip: str
    far: Pod
    clients: list[Pod]
    talks: list[Talk]
    served: list[str]
    """The provider of each talk."""


@contextmanager
def talking(bed: Bed, network: str, patience: float = PATIENCE) -> Iterator[Talking]:
    """Have two clients talk to a service with a provider here, `near`, and one elsewhere, `far`."""
    here, there = bed.hosts
    vip = create_service(bed, network)
    near, *clients = pods(bed, here, network, "near", "a", "b")
    (far,) = pods(bed, there, network, "far")
    for pod in (near, far):
        label(bed, pod)
    # a connection may begin by what the datapath has cached, and be dealt out otherwise later
    here.ovs.appctl("revalidator/purge")
    with serving(near, far), ExitStack() as stack:
        many = clients * 8
        talks = [stack.enter_context(closing(Talk(pod, vip, 80, patience))) for pod in many]
        served = [talk.says() for talk in talks]
        assert set(served) == {"near", "far"}
        yield Talking(vip, far, clients, talks, served)


NETWORK = pytest.mark.parametrize("network", list(NETWORKS))


@NETWORK
def test_connections_are_spread_over_providers_here_and_elsewhere(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    vip = create_service(bed, network)
    near, *clients = pods(bed, here, network, "near", "a", "b")
    (far,) = pods(bed, there, network, "far")
    for pod in (near, far):
        label(bed, pod)
    with serving(near, far):
        answers = Counter(who(pod, vip) for pod in clients * 30)
        assert answers.keys() == {"near", "far"}
        assert min(answers.values()) > 10, "1 in 10 000 000 by chance"
        assert who(clients[0], vip, 81, SILENCE) == "", "no port of the service"
        assert who(clients[0], near.address, 8080) == "near", "the provider itself"


@NETWORK
def test_a_provider_is_removed_while_clients_run(bed: Bed, network: str) -> None:
    with talking(bed, network) as (vip, far, clients, talks, served):
        label(bed, far, event="die")
        for talk, provider in zip(talks, served, strict=True):
            if provider == "near":
                assert talk.says() == "near", "nobody else is moved"
            else:
                eventually(lambda t=talk: _is_over(t), "it ends")  # type: ignore[misc]
        eventually(lambda: {who(pod, vip) for pod in clients * 8} == {"near"}, "all are served")
        label(bed, far)
        eventually(lambda: {who(pod, vip) for pod in clients * 8} == {"near", "far"}, "both serve")


FORGETS = "forgets ended connections early"


@NETWORK
def test_ended_connections_are_remembered(bed: Bed, network: str) -> None:
    """For longer than the provider's kernel knows them, or the agent says that it is not so."""
    here = bed.hosts[0]
    vip = create_service(bed, network)
    provider, client = pods(bed, here, network, "provider", "client")
    label(bed, provider)

    def left(state: str) -> list[int]:
        lines = here.ovs.appctl("dpctl/dump-conntrack", "-s").splitlines()
        ours = [line for line in lines if f"dst={vip}," in line and f"state={state}" in line]
        return [int(line.split("timeout=")[1].split(",")[0]) for line in ours]

    with serving(provider):
        assert who(client, vip) == "provider"
        eventually(lambda: left("TIME_WAIT"), "the connection has ended")
        with closing(Talk(client, vip, 80)) as talk:
            assert talk.says() == "provider"
            early = any(seconds <= 60 for seconds in left("TIME_WAIT"))
            if early:
                eventually(lambda: FORGETS in bed.agents[0].log_text(), "the agent says so")
            else:
                assert FORGETS not in bed.agents[0].log_text()
            assert all(seconds > 3600 for seconds in left("ESTABLISHED"))
            assert left("ESTABLISHED")


def _is_over(talk: Talk) -> bool:
    """Return whether the other end has gone."""
    try:
        talk.says()
    except ConnectionError:
        return True
    return False


@NETWORK
def test_without_providers_connections_are_refused(bed: Bed, network: str) -> None:
    vip = create_service(bed, network, "80:8080:TCP", "53:5353:UDP")
    (client,) = pods(bed, bed.hosts[0], network, "client")
    with pytest.raises(ConnectionRefusedError):
        Talk(client, vip, 80)
    datagrams = partial(socket.socket, family_of(vip), socket.SOCK_DGRAM)
    with closing(client.namespace.call(datagrams)) as end:
        end.settimeout(PATIENCE)
        end.connect((vip, 53))
        end.send(b"who")
        with pytest.raises(ConnectionRefusedError):
            end.recv(100)


@NETWORK
def test_a_killed_agent(bed: Bed, network: str) -> None:
    """What runs goes on, and clients open connections, before and after it is back."""
    with talking(bed, network) as (vip, _, clients, talks, served):
        agent = bed.agents[0]
        agent.kill()
        assert [talk.says() for talk in talks] == served
        assert all(who(pod, vip) for pod in clients * 4)
        agent.start()
        assert [talk.says() for talk in talks] == served
        assert all(who(pod, vip) for pod in clients * 4)
        (new,) = pods(bed, bed.hosts[0], network, "new")
        assert who(new, vip) in {"near", "far"}


@NETWORK
def test_a_provider_goes_while_the_agent_is_away(bed: Bed, network: str) -> None:
    with talking(bed, network) as (_, far, _, talks, served):
        agent = bed.agents[0]
        agent.kill()
        contiv = far.conf["contiv"]
        body = {
            "IPAddress": far.address,
            "ContainerID": far.sandbox.container_id,
            "Labels": {"app": "web"},
            "Tenant": contiv["tenant"],
            "Network": contiv["network"],
            "Event": "die",
            "EndpointID": far.sandbox.container_id,
            "EPCommonName": far.name,
        }
        assert ask(bed, "POST", "/plugin/updateEndpoint", body).status == 200
        agent.start()
        applied(bed)
        talk = talks[served.index("far")]
        eventually(lambda: _is_over(talk), "it ends")
        assert talks[served.index("near")].says() == "near"


@NETWORK
def test_a_killed_switch(bed: Bed, network: str) -> None:
    """Connections go on with their provider or end; what the userspace datapath tracked is gone."""
    with talking(bed, network, patience=60) as (vip, _, clients, talks, served):
        bed.hosts[0].ovs.vswitchd.kill()
        bed.hosts[0].ovs.vswitchd.start()
        for talk, provider in zip(talks, served, strict=True):
            with suppress(ConnectionError):
                assert talk.says() == provider
        eventually(lambda: all(who(pod, vip) for pod in clients), "new ones too")


@NETWORK
def test_a_pod_serves_itself(bed: Bed, network: str) -> None:
    vip = create_service(bed, network)
    (alone,) = pods(bed, bed.hosts[0], network, "alone")
    label(bed, alone)
    with serving(alone):
        talk = Talk(alone, vip, 80)
        assert [talk.says() for _ in range(3)] == ["alone"] * 3
        talk.close()
        assert who(alone, alone.address, 8080) == "alone"


@NETWORK
def test_two_services_of_one_pod_answer_under_their_own_names(bed: Bed, network: str) -> None:
    vip = create_service(bed, network, "80:8080:TCP", "81:8080:TCP")
    other = vip.replace("200", "201")
    create_service(bed, network, name="more", address=other)
    (client,) = pods(bed, bed.hosts[0], network, "client")
    (far,) = pods(bed, bed.hosts[1], network, "far")
    label(bed, far)
    bed.netctl("service", "rm", "more")
    bed.netctl(
        *("service", "create", "-s", network, "--selector=app=web", "--port=80:8080:TCP"),
        *("-ip", other, "more"),
    )
    applied(bed)
    with serving(far):
        talks = [Talk(client, *to) for to in ((vip, 80), (vip, 81), (other, 80), (other, 80))]
        assert [talk.says() for talk in talks] == ["far"] * 4
        for talk in talks:
            talk.close()


@NETWORK
def test_policies_judge_the_provider(bed: Bed, network: str) -> None:
    """They see the packet after its translation, on both hosts."""
    policy = f"guard-{network}"
    vip = create_service(bed, network, "80:8080:TCP", "81:8081:TCP")
    (client,) = pods(bed, bed.hosts[0], network, "client")
    far = bed.add_pod(bed.hosts[1], "far", network=network, group=f"web-{network}")
    label(bed, far)
    rules = {
        "1": ["--action=deny", "--protocol=tcp", "--priority=1"],
        "2": ["--action=allow", "--protocol=tcp", "--port=8080", "--priority=10"],
    }
    add_rules(bed, policy, rules)
    try:
        with serving(far), serving(far, port=8081):
            assert who(client, vip, 80) == "far"
            assert who(far, far.address, 8081) == "far", "it listens"
            assert who(client, vip, 81, SILENCE) == ""
    finally:
        for number in rules:
            bed.netctl("policy", "rule-rm", policy, number)


def test_tenants_with_the_same_addresses(bed: Bed) -> None:
    """Services, clients and providers of two tenants, all with the same addresses."""
    tenants, vip = ("red", "blue"), "fd00:70::200" if FAMILY == "v6" else "10.70.0.200"
    names = {}
    here, there = bed.hosts
    try:
        for tenant in tenants:
            bed.netctl("tenant", "create", tenant)
            words = subnets("10.70.0.0/24", "10.70.0.1", "fd00:70::/64", "fd00:70::1", usual="v4")
            bed.netctl("net", "create", "-t", tenant, *words, "--encap=vxlan", "same")
            client = bed.add_pod(here, f"c{tenant}", tenant=tenant, network="same")
            server = bed.add_pod(there, f"s{tenant}", tenant=tenant, network="same")
            create_service(bed, "same", tenant=tenant, address=vip)
            label(bed, server)
            names[tenant] = (client, server)
        addresses = {(client.address, server.address) for client, server in names.values()}
        assert len(addresses) == 1, "the same addresses"
        with serving(*(server for _, server in names.values())):
            for client, server in names.values():
                assert who(client, vip) == server.name
    finally:
        for pod in list(bed.pods):
            bed.delete_pod(pod)
        for tenant in tenants:
            bed.netctl("service", "rm", "-t", tenant, "web", check=False)
            bed.netctl("net", "rm", "-t", tenant, "same", check=False)
            bed.netctl("tenant", "rm", tenant, check=False)
