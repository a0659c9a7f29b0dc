"""Hosts and traces of a real cluster: agents, switches and pods. Run by `make ui-check`.

The browser is in the namespace of the fabric, where netmaster is, and reaches nothing else.
"""

import errno
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from netplugin.world.kubernetes.policy_objects import ADMIN_POLICIES, NETWORK_POLICIES
from tests.bed.cluster import Bed, networked
from tests.bed.kubernetes import endpoint_slice
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.footprint import steady
from tests.system.kube_site import api_beside, api_flags
from tests.ui.browser import CHROMIUM, Shown, browser, opened

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

ADMINISTRATORS: Final = "apis/policy.networking.k8s.io/v1alpha1"
TOLD: Final = (
    ("AdminNetworkPolicy edge", "ingress", "deny", "everything from 203.0.113.0/24"),
    ("NetworkPolicy default/doors", "allow", "TCP 80 from pods app=lb of namespace default"),
    ("NetworkPolicy default/doors", "default/server", "deny", "nothing else"),
)
"""What Kubernetes' policies say of the server, in the order in which they are asked."""


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Run the whole system on two hosts, beside an API server of Kubernetes."""
    directory = next(bed_dirs)
    directory.mkdir()
    flags = {"netplugin": [*api_flags(tmp_path_factory), "--flow-records"]}
    with networked(Bed(directory, flags=flags)) as bed, api_beside(bed, ADMINISTRATORS):
        yield bed


@pytest.fixture(scope="module")
def pods(bed: Bed) -> dict[str, Pod]:
    """Have a client on each host, and a server behind a policy."""
    bed.netctl("policy", "create", "doors")
    bed.netctl("policy", "rule-add", "-d", "in", "--action=deny", "-l", "tcp", "doors", "1")
    allowed = ["-d", "in", "--action=allow", "--priority=10", "-l", "tcp", "-P", "80"]
    bed.netctl("policy", "rule-add", *allowed, "doors", "2")
    bed.netctl("group", "create", "-p", "doors", "default-net", "guarded")
    one, two = bed.hosts
    found = {
        "client": bed.add_pod(one, "client", labels={"app": "lb"}),
        "server": bed.add_pod(two, "server", group="guarded", labels={"app": "web"}),
    }
    steady(bed)  # where Open vSwitch needs purges, each change of flows loses counts
    return found


@pytest.fixture(scope="module")
def inside(bed: Bed, bed_dirs: Iterator[Path]) -> Iterator[Browser]:
    """Run Chromium in the namespace of the fabric."""
    launcher = next(bed_dirs)
    enter = " ".join(map(str, bed.fabric.namespace.enter))
    launcher.write_text(f'#!/bin/sh\nexec {enter} {CHROMIUM} "$@"\n')
    launcher.chmod(0o755)
    with browser(launcher=launcher, address=bed.fabric.address) as found:
        yield found


Picture = Callable[[Shown, str], None]


def trace(pods: dict[str, Pod], port: int) -> str:
    client, server = (pods[name].address for name in ("client", "server"))
    return f"trace?src={client}&dst={server}&proto=tcp&port={port}"


@pytest.mark.usefixtures("pods")
def test_the_front_page_says_that_all_is_well(inside: Browser, bed: Bed, picture: Picture) -> None:
    with opened(inside, bed.url) as shown:
        shown.go("overview")
        shown.await_text("All 2 hosts are well.")
        assert shown.faults() == []
        picture(shown, "overview")


@pytest.mark.usefixtures("pods")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hosts_are_shown_with_their_health(
    inside: Browser, bed: Bed, scheme: str, picture: Picture
) -> None:
    with opened(inside, bed.url, color_scheme=scheme) as shown:
        shown.go("hosts")
        shown.await_text("2 of 2 hosts are in step")
        for host in bed.hosts:
            row = shown.page.get_by_role("row").filter(has_text=host.label)
            expect(row).to_contain_text("in step")
            expect(row).to_contain_text(host.address)
        assert shown.faults() == []
        picture(shown, f"real-hosts-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_trace_is_drawn_host_by_host(
    inside: Browser, bed: Bed, pods: dict[str, Pod], scheme: str, picture: Picture
) -> None:
    with opened(inside, bed.url, color_scheme=scheme) as shown:
        shown.go(trace(pods, 80))
        expect(shown.page.locator(".verdict.good")).to_contain_text("delivered")
        assert shown.page.locator("svg.hops").count() == 2  # there and back
        # each host once
        expect(shown.page.locator("svg.hops").first.locator(".host-name")).to_have_count(2)
        expect(shown.page.locator("svg.hops").first).to_be_visible()
        expect(shown.page.locator("svg.hops").last).not_to_be_visible()
        expect(shown.page.get_by_role("region", name="Step by step")).not_to_be_visible()
        for host in bed.hosts:
            expect(shown.page.locator("svg.hops").first).to_contain_text(host.label)
        expect(shown.page.locator("svg .way")).to_have_count(2)
        assert shown.faults() == []
        picture(shown, f"trace-delivered-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_trace_names_the_rule_that_drops(
    inside: Browser, bed: Bed, pods: dict[str, Pod], scheme: str, picture: Picture
) -> None:
    with opened(inside, bed.url, color_scheme=scheme) as shown:
        shown.go(trace(pods, 22))
        expect(shown.page.locator(".verdict.bad")).to_contain_text("dropped")
        expect(shown.page.locator("svg")).to_contain_text("dropped here")
        expect(shown.page.locator("svg")).to_contain_text("doors")
        assert shown.faults() == []
        picture(shown, f"trace-dropped-{scheme}")


def test_a_packet_is_sent_and_followed(
    inside: Browser, bed: Bed, pods: dict[str, Pod], picture: Picture
) -> None:
    with opened(inside, bed.url) as shown:
        shown.go(trace(pods, 80))
        expect(shown.page.locator(".verdict.good")).to_contain_text("delivered")
        with shown.held("trace"):
            shown.page.get_by_role("button", name="Trace and send a packet").click()
            expect(shown.page.get_by_role("status").filter(has_text="Sending")).to_be_visible()
        heading = shown.page.get_by_role("heading", name="The packet that was sent")
        heading.wait_for()
        shown.page.get_by_text("Where it was seen").first.click()
        seen = shown.page.get_by_role("region", name="Where it was seen")
        for host in bed.hosts:
            expect(seen).to_contain_text(host.label)
        assert shown.faults() == []
        picture(shown, "trace-live")


@pytest.mark.usefixtures("pods")
def test_hosts_test_themselves(inside: Browser, bed: Bed, picture: Picture) -> None:
    with opened(inside, bed.url) as shown:
        shown.go("selftest")
        with shown.held("selftest"):
            shown.page.get_by_role("button", name="Test now").click()
            expect(shown.page.locator("progress")).to_be_visible()
        shown.page.locator(".verdict").wait_for()
        shown.page.get_by_text("All checks").first.click()
        checks = shown.page.get_by_role("region", name="All checks")
        for host in bed.hosts:
            expect(checks).to_contain_text(host.label)
        assert shown.faults() == []
        picture(shown, "selftest")


def test_packets_are_captured_into_a_file(inside: Browser, bed: Bed, pods: dict[str, Pod]) -> None:
    with opened(inside, bed.url) as shown:
        shown.go("endpoints")
        shown.page.get_by_role("button", name=pods["client"].address).click()
        shown.page.get_by_role("link", name="Capture its packets").click()
        shown.page.get_by_label("Packets at most").fill("2")
        shown.page.get_by_label("Seconds").fill("50")
        with shown.held("endpoints/*/capture"):
            shown.page.get_by_role("button", name="Capture", exact=True).click()
            expect(shown.page.locator("progress")).to_be_visible()

        def captured() -> bool:
            """Send packets, of which two end it, also after it has begun on the host."""
            pods["client"].ping(pods["server"].address)
            return shown.page.locator("a.save").count() > 0

        eventually(captured, "two packets are captured")
        with shown.page.expect_download() as kept:
            shown.page.locator("a.save").click()
        assert kept.value.path().read_bytes()[:4] == b"\x4d\x3c\xb2\xa1"
        assert shown.faults() == []


SHUT: Final = 22
"""A port that the policy denies."""


def talk(pods: dict[str, Pod]) -> None:
    """Send what passes, and what the policy drops."""
    client, server = pods["client"], pods["server"]
    assert client.ping(server.address)
    end = client.namespace.call(lambda: socket.socket(socket.AF_INET))
    with end:
        end.setblocking(False)
        assert end.connect_ex((server.address, SHUT)) == errno.EINPROGRESS


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_flows_are_shown_as_they_begin(
    inside: Browser, bed: Bed, pods: dict[str, Pod], scheme: str, picture: Picture
) -> None:
    with opened(inside, bed.url, color_scheme=scheme) as shown:
        shown.go("flows?to=server&range=300")
        shown.page.get_by_text("flows, ").first.wait_for()  # it watches
        talk(pods)
        rows = shown.page.get_by_role("region", name="Flows").get_by_role("row")
        passed = rows.filter(has_text="icmp").filter(has_text="forwarded")
        dropped = rows.filter(has_text=f"tcp/{SHUT}").filter(has_text="dropped: policy")
        expect(passed.first).to_contain_text("client")
        expect(dropped.first).to_contain_text("server")
        expect(shown.page.locator("svg.sparkline")).to_be_visible()
        dropped.first.get_by_role("button").click()
        told = shown.page.get_by_role("region", name="What is chosen")
        expect(told).to_contain_text("doors")
        expect(told).to_contain_text("group guarded")
        assert shown.faults() == []
        picture(shown, f"flows-{scheme}")
        told.get_by_role("link", name="Trace it").click()
        expect(shown.page.locator(".verdict.bad")).to_contain_text("dropped")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_draws_who_sends_to_whom(
    inside: Browser, bed: Bed, pods: dict[str, Pod], scheme: str, picture: Picture
) -> None:
    talk(pods)
    with opened(inside, bed.url, color_scheme=scheme) as shown:
        shown.go("map?by=pod")
        lost = shown.page.locator("svg.flowmap a").filter(has=shown.page.locator(".lost"))
        expect(lost).to_have_attribute("aria-label", re.compile("client to .*server: .* dropped"))
        lines = shown.page.get_by_role("region", name="Who sends to whom").locator("tbody tr")
        expect(lines.filter(has_text="server").first).to_be_visible()
        assert shown.faults() == []
        picture(shown, f"map-{scheme}")
        lost.focus()
        shown.page.keyboard.press("Enter")
        expect(shown.page.locator("h1")).to_have_text("Flows")
        rows = shown.page.get_by_role("region", name="Flows").get_by_role("row")
        expect(rows.filter(has_text=f"tcp/{SHUT}").first).to_contain_text("dropped: policy")


def test_an_endpoint_tells_its_last_flows(
    inside: Browser, bed: Bed, pods: dict[str, Pod], picture: Picture
) -> None:
    talk(pods)
    with opened(inside, bed.url) as shown:
        shown.go("endpoints")
        shown.page.get_by_role("button", name=pods["server"].address).click()
        recent = shown.page.get_by_role("region", name="Recent flows").locator("tbody tr")
        expect(recent.filter(has_text="icmp").first).to_contain_text("client")
        expect(recent.filter(has_text=f"tcp/{SHUT}").first).to_contain_text("dropped: policy")
        assert shown.faults() == []
        picture(shown, "endpoint")


@pytest.mark.parametrize(
    ("view", "name"), [("networks", "default-net"), ("groups", "guarded"), ("policies", "doors")]
)
def test_an_object_tells_on_which_hosts_it_is_applied(
    inside: Browser, bed: Bed, pods: dict[str, Pod], view: str, name: str
) -> None:
    assert pods
    hosts = len(bed.hosts)
    with opened(inside, bed.url) as shown:
        shown.go(view)
        shown.page.get_by_role("button", name=name, exact=True).click()
        told = shown.page.get_by_role("region", name="What is chosen")
        expect(told).to_contain_text(f"applied on {hosts} of {hosts} hosts, seen so since")
        assert shown.faults() == []


def test_a_policy_under_audit_says_so(inside: Browser, bed: Bed) -> None:
    bed.netctl("policy", "create", "--audit", "tried")
    bed.netctl("policy", "rule-add", "-d", "in", "-j", "deny", "-l", "tcp", "tried", "1")
    try:
        with opened(inside, bed.url) as shown:
            shown.go("policies?search=tried")
            shown.page.get_by_role("button", name="tried", exact=True).click()
            told = shown.page.get_by_role("region", name="What is chosen")
            expect(told).to_contain_text("deny, under audit")
            told.get_by_role("link", name="what it would deny").click()
            expect(shown.page.get_by_label("Verdict")).to_have_value("audited")
            expect(shown.page.get_by_label("Decided by policy")).to_have_value("tried")
            assert shown.faults() == []
    finally:
        bed.netctl("policy", "rm", "tried")


@pytest.fixture
def kubernetes(bed: Bed, pods: dict[str, Pod]) -> Iterator[None]:
    """Have policies of Kubernetes of two kinds, and a service, for the server."""
    api = bed.api
    assert api is not None
    lb, web = ({"podSelector": {"matchLabels": {"app": one}}} for one in ("lb", "web"))
    allowed = {"from": [lb], "ports": [{"port": 80}]}
    everyone: dict[str, Any] = {"namespaces": {}}
    denied = {"action": "Deny", "from": [{"networks": ["203.0.113.0/24"]}]}
    ports = [{"port": 8080}]
    slices = endpoint_slice("shop", pods["server"].address, ports=ports)
    objects: dict[tuple[str, str, str], dict[str, Any]] = {
        (NETWORK_POLICIES, "default", "doors"): {"spec": {**web, "ingress": [allowed]}},
        (ADMIN_POLICIES, "", "edge"): {
            "spec": {"priority": 1, "subject": everyone, "ingress": [denied]}
        },
        (SERVICES, "default", "shop"): {
            "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80, "protocol": "TCP"}]}
        },
        (SLICES, "default", "shop-a"): slices,
    }
    for named, body in objects.items():
        api.put(*named, **body)
    try:
        yield
    finally:
        for named in objects:
            api.delete(*named)


@pytest.mark.usefixtures("kubernetes")
def test_what_kubernetes_says_of_a_pod_is_told_rule_by_rule(
    inside: Browser, bed: Bed, pods: dict[str, Pod], picture: Picture
) -> None:
    client, server = pods["client"], pods["server"]

    def dropped() -> bool:
        client.ping(server.address)
        words = ("policy", "kube-rules", "-n", "default", "-p", "server", "-j")
        rules = json.loads(bed.netctl(*words))["items"]
        return any(one["rule"] == "nothing else" and one["packets"] for one in rules)

    eventually(dropped, "a packet is dropped by the policy")
    with opened(inside, bed.url) as shown:
        shown.go("endpoints")
        shown.page.get_by_role("button", name=server.address).click()
        shown.page.get_by_role("link", name="Who may talk to it").click()
        rows = shown.page.get_by_role("region", name="Rules of Kubernetes' policies")
        rows = rows.locator("tbody tr")
        expect(rows).to_have_count(3)
        for row, words in enumerate(TOLD):
            for text in words:
                expect(rows.nth(row)).to_contain_text(text)
        expect(rows.last).not_to_have_text(re.compile("nothing else0$"))
        service = shown.page.get_by_role("region", name="Services of Kubernetes")
        expect(service.locator("tbody tr")).to_have_text(
            ["default/shopTCP 80 to 808010.96.0.10default/server"]
        )
        assert shown.faults() == []
        picture(shown, "reach-kubernetes")
        shown.page.get_by_label("Pod", exact=True).fill("client")
        shown.page.get_by_role("button", name="Ask the hosts").click()
        expect(rows).to_have_count(1)
        assert "pod=client" in shown.page.url


def test_an_agent_that_ends_is_shown_and_told_by_traces(
    inside: Browser, bed: Bed, pods: dict[str, Pod]
) -> None:
    with opened(inside, bed.url) as shown:
        shown.go("hosts")
        shown.await_text("2 of 2 hosts are in step")
        bed.agents[1].kill()
        try:
            row = shown.page.get_by_role("row").filter(has_text=bed.hosts[1].label)
            expect(row).to_contain_text("no agent")
            shown.go(trace(pods, 80))
            expect(shown.page.locator("svg")).to_contain_text("fault")
            shown.go("hosts")
        finally:
            bed.agents[1].start()
        began = time.monotonic()
        shown.page.get_by_text("2 of 2 hosts are in step").wait_for()
        took = time.monotonic() - began
        print(f"an agent that is back is in step on the screen after {took:.2f} s")  # noqa: T201 - the result
