"""Hosts and traces of a real cluster: agents, switches and pods. Run by `make ui-check`.

The browser is in the namespace of the fabric, where netmaster is, and reaches nothing else.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.bed.cluster import Bed, networked
from tests.bed.pods import Pod
from tests.system.planes import applied
from tests.ui.browser import CHROMIUM, Shown, browser, opened

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run the whole system on two hosts."""
    directory = next(bed_dirs)
    directory.mkdir()
    with networked(Bed(directory)) as bed:
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
        "client": bed.add_pod(one, "client"),
        "server": bed.add_pod(two, "server", group="guarded"),
    }
    applied(bed)
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
        expect(shown.page.locator(".verdict.good")).to_contain_text("delivered", timeout=15_000)
        assert shown.page.locator("svg.hops").count() == 2  # there and back
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
        expect(shown.page.locator(".verdict.bad")).to_contain_text("dropped", timeout=15_000)
        expect(shown.page.locator("svg")).to_contain_text("dropped here")
        expect(shown.page.locator("svg")).to_contain_text("doors")
        assert shown.faults() == []
        picture(shown, f"trace-dropped-{scheme}")


def test_a_packet_is_sent_and_followed(
    inside: Browser, bed: Bed, pods: dict[str, Pod], picture: Picture
) -> None:
    with opened(inside, bed.url) as shown:
        shown.go(trace(pods, 80))
        expect(shown.page.locator(".verdict.good")).to_contain_text("delivered", timeout=15_000)
        shown.page.get_by_role("button", name="Trace and send a packet").click()
        heading = shown.page.get_by_role("heading", name="The packet that was sent")
        heading.wait_for(timeout=60_000)
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
        shown.page.get_by_role("button", name="Test now").click()
        expect(shown.page.locator("progress")).to_be_visible()
        shown.page.locator(".verdict").wait_for(timeout=120_000)
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
        shown.page.get_by_role("button", name="Capture", exact=True).click()
        shown.page.locator("progress").wait_for()
        # two packets end it: an echo request and its answer, or requests alone
        pods["client"].ping(pods["server"].address)
        with shown.page.expect_download() as kept:
            shown.page.locator("a.save").click(timeout=90_000)
        assert kept.value.path().read_bytes()[:4] == b"\x4d\x3c\xb2\xa1"
        assert shown.faults() == []


def test_an_agent_that_ends_is_shown_and_told_by_traces(
    inside: Browser, bed: Bed, pods: dict[str, Pod]
) -> None:
    with opened(inside, bed.url) as shown:
        shown.go("hosts")
        shown.await_text("2 of 2 hosts are in step")
        bed.agents[1].kill()
        try:
            row = shown.page.get_by_role("row").filter(has_text=bed.hosts[1].label)
            expect(row).to_contain_text("no agent", timeout=60_000)
            shown.go(trace(pods, 80))
            expect(shown.page.locator("svg")).to_contain_text("fault", timeout=15_000)
            shown.go("hosts")
        finally:
            bed.agents[1].start()
        began = time.monotonic()
        shown.page.get_by_text("2 of 2 hosts are in step").wait_for(timeout=60_000)
        took = time.monotonic() - began
        print(f"an agent that is back is in step on the screen after {took:.2f} s")  # noqa: T201 - the result
