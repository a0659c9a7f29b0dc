"""Every view in a real browser, beside 10, 1000 and 10 000 endpoints.

Run by `make ui-check`, not by `make test`. What each view shows, what axe-core finds, what the
keyboard alone can do, and figures: the first paint, the first rows, and the way of a change from
the request to the screen.
"""

import re
import statistics
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect

from tests.bed.master import Master
from tests.bed.store import STORES
from tests.bed.waiting import eventually
from tests.ui.browser import Shown, opened
from tests.ui.crowd import BAD_NAME, GROUPS, HELD, OTHER, endpoint, fill, group

pytestmark = [pytest.mark.store, pytest.mark.timeout(900)]

VIEWS: Final = {
    "overview": "What changed",
    "hosts": "No host has registered yet.",
    "tenants": OTHER,
    "networks": "10.3.0.0/24",
    "groups": group(1),
    "endpoints": "pod-000000000000",
    "addresses": "10.1.0.0/16",
    "services": "There is no such service.",
    "bgp": "No host speaks BGP.",
    "policies": "doors",
    "selftest": "Test now",
    "capture": "Its host captures",
    "reach": "Rows open connections to columns",
    "trace": "An end is an endpoint",
    "what-if": "Try it",
    "flows": "No flow is like that.",
    "map": "No flow is like that.",
    "changes": "doors",
}
"""A view and a text that it shows once it has its data."""
EMPTY: Final = {
    "overview": "Start netplugin on a host",
    "hosts": "Start netplugin on a host",
    "bgp": "netctl bgp create",
    "tenants?search=none": "netctl tenant create",
    "networks?search=none": "netctl net create",
    "groups?search=none": "netctl group create",
    "services?search=none": "netctl service create",
    "policies?search=none": "netctl policy create",
    "endpoints?host=none": "Clear a filter",
}
"""A view without anything to show, and the step that it names."""
MOMENT: Final = re.compile(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC[+-]\d\d:\d\d$")
REPEATS: Final = 5
TARGET: Final = 1.0
"""Seconds until the first paint, and until a change is on the screen."""
SCHEMES: Final = ("light", "dark")
Picture = Callable[[Shown, str], None]


@dataclass(frozen=True)
class Filled:
    """A netmaster with so many endpoints."""

    master: Master
    endpoints: int

    @property
    def url(self) -> str:
        return self.master.url

    def ask(self, method: str, path: str, body: Any = None) -> None:
        """Make a change."""
        answer = self.master.ask(method, path, body)
        assert answer.status < 300, answer.text


@pytest.fixture(scope="module", params=list(GROUPS))
def filled(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Filled]:
    """Run a netmaster on a store of its own, with endpoints."""
    directory = next(bed_dirs)
    directory.mkdir()
    store = STORES["etcd"](directory)
    store.start()
    master = Master(directory, store)
    try:
        master.start()
        fill(master, request.param)
        yield Filled(master, request.param)
        assert "Traceback" not in master.log_text()
    finally:
        master.kill()
        store.kill()


@pytest.fixture
def shown(chromium: Browser, filled: Filled) -> Iterator[Shown]:
    with opened(chromium, filled.url) as page:
        yield page


def tell(filled: Filled, what: str, seconds: list[float]) -> None:
    """Print a figure."""
    middle, worst = statistics.median(seconds), max(seconds)
    said = "" if middle <= TARGET else f", over the target of {TARGET:g} s"
    print(  # noqa: T201 - the result
        f"{filled.endpoints} endpoints: {what}: median {middle:.2f} s, worst {worst:.2f} s{said}"
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_what_there_is_and_has_no_serious_fault(
    chromium: Browser, filled: Filled, view: str, scheme: Any, picture: Picture
) -> None:
    with opened(chromium, filled.url, color_scheme=scheme) as shown:
        shown.go(view)
        shown.await_text(VIEWS[view])
        assert shown.page.locator("nav a[aria-current=page]").count() == 1
        expect(shown.page.locator("h1")).to_have_count(1)
        page = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (page == "rgb(255, 255, 255)") == (scheme == "light")
        assert shown.faults() == []
        if filled.endpoints == 1_000:
            picture(shown, f"{view}-{scheme}")


def test_a_tenant_tells_what_it_has_of_what_it_may_have(shown: Shown, filled: Filled) -> None:
    quotas = {"networkQuota": 1, "ruleQuota": 7}
    filled.ask("PATCH", f"/api/v2/tenants/{OTHER}", quotas)
    try:
        shown.go("tenants")
        shown.page.get_by_role("button", name=OTHER, exact=True).click()
        rows = shown.page.get_by_role("region", name="What it has").locator("tbody tr")
        expect(rows.filter(has_text="networks")).to_contain_text("1: no more")
        expect(rows.filter(has_text="rules")).to_contain_text("7")
        expect(rows.filter(has_text="policies")).to_contain_text("any number")
        assert shown.faults() == []
    finally:
        filled.ask("PATCH", f"/api/v2/tenants/{OTHER}", dict.fromkeys(quotas, 0))


def test_what_is_wrong_with_a_page_is_found(shown: Shown) -> None:
    """The tool that finds no fault elsewhere finds one that is there."""
    shown.go("tenants")
    shown.await_text(OTHER)
    shown.page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert [fault.partition(":")[0] for fault in shown.faults()] == ["label"]


def test_the_first_paint_and_the_first_rows(chromium: Browser, filled: Filled) -> None:
    for view, text in VIEWS.items():
        paints, rows = [], []
        for _ in range(REPEATS):
            with opened(chromium, filled.url) as shown:
                began = f"main :text({text!r})"
                shown.go(view)
                shown.page.locator(began).first.wait_for(state="attached")
                rows.append(float(shown.page.evaluate("performance.now()")) / 1000)
                paints.append(shown.first_paint())
        tell(filled, f"{view}: first paint", paints)
        tell(filled, f"{view}: data on the screen", rows)


def test_endpoints_are_searched_and_paged_by_netmaster(shown: Shown, filled: Filled) -> None:
    shown.go("endpoints")
    shown.await_text("pod-000000000000")
    rows = shown.page.locator("tbody tr:not(.spacer)")
    if filled.endpoints > 100:
        shown.await_text(f"100 of {filled.endpoints} endpoints shown")
        shown.page.get_by_role("button", name="More").click()
        shown.await_text(f"200 of {filled.endpoints} endpoints shown")
        assert rows.count() < 100  # only rows in sight are in the document
    shown.page.get_by_label("Address or prefix").fill("10.1.0.7")
    shown.await_text("1 endpoints")
    expect(rows).to_have_count(1)
    assert "address=10.1.0.7" in shown.page.url
    shown.page.get_by_label("Address or prefix").fill("10.1.0.")
    shown.await_text("is neither an address nor a prefix")
    shown.page.get_by_label("Address or prefix").fill("")
    shown.page.get_by_label("Group", exact=True).fill(group(1))
    shown.page.get_by_label("Host", exact=True).fill("h1")
    expect(rows.first).to_contain_text(group(1))
    shown.page.get_by_label("Network", exact=True).fill("nowhere")
    shown.await_text("No endpoint is like that.")


def test_endpoints_are_found_by_pod_and_sorted_over_all_pages(shown: Shown) -> None:
    shown.go("endpoints")
    names = shown.page.locator("tbody tr:not(.spacer) td:nth-child(2)")
    expect(names.first).to_be_visible()
    sort = shown.page.get_by_role("button", name="Name", exact=True)
    sort.click()
    expect(names.first).to_have_text("pod-000000000000")
    sort.click()
    expect(shown.page.get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(names.first).not_to_have_text("pod-000000000000")
    shown.page.get_by_label("Pod or container contains").fill("POD-000000000007")
    shown.await_text("1 endpoints")
    expect(names).to_have_text(["pod-000000000007"])
    shown.page.locator("tbody .open").click()
    told = shown.page.get_by_role("region", name="What is chosen")
    expect(told).to_contain_text("pod-000000000007")
    expect(told.get_by_role("link", name="Trace to it")).to_be_visible()
    assert shown.faults() == []


def test_endpoints_are_found_by_a_label(shown: Shown, filled: Filled) -> None:
    labelled = endpoint("labelled", 0, "h-label")
    filled.ask("POST", "/plugin/createEndpoint", labelled)
    try:
        start = {"Event": "start", "EndpointID": "labelled", "ContainerID": "labelled"}
        named = {"Network": "front", "Tenant": "default", "EPCommonName": "pod-labelled"}
        labels = {"Labels": {"tier": "edge"}}
        filled.ask("POST", "/plugin/updateEndpoint", {**start, **named, **labels})
        shown.go("endpoints")
        shown.page.get_by_label("Label (name or name=value)").fill("tier=edge")
        names = shown.page.locator("tbody tr:not(.spacer) td:nth-child(2)")
        expect(names).to_have_text(["pod-labelled"])
        expect(shown.page).to_have_url(re.compile("label=tier%3Dedge"))
        shown.page.get_by_label("Label (name or name=value)").fill("tier=core")
        shown.await_text("No endpoint is like that.")
    finally:
        filled.ask("POST", "/plugin/deleteEndpoint", {**gone(0), "EndpointID": "labelled"})


@pytest.mark.parametrize("view", EMPTY)
def test_an_empty_page_says_the_next_step(shown: Shown, view: str) -> None:
    shown.go(view)
    expect(shown.page.locator(".empty:visible, .verdict:visible").first).to_contain_text(
        EMPTY[view]
    )


def test_other_tables_are_sorted_here(shown: Shown) -> None:
    shown.go("networks")
    shown.await_text("3 of 3")
    subnets = shown.page.locator("tbody tr:not(.spacer) td:nth-child(4)")
    button = shown.page.get_by_role("button", name="Subnet", exact=True)
    button.click()
    expect(subnets).to_have_text(["10.1.0.0/16", "10.2.0.0/24", "10.3.0.0/24"])
    button.click()
    expect(subnets).to_have_text(["10.3.0.0/24", "10.2.0.0/24", "10.1.0.0/16"])


def test_the_front_page_leads_on(shown: Shown, filled: Filled) -> None:
    small = {**HELD, "networkName": "small", "encap": "vxlan"}
    filled.ask("POST", "/api/v2/networks", {**small, "subnet": "10.8.0.0/30"})
    pod = {**endpoint("last", 0, "h-new"), "NetworkName": "small", "ServiceName": ""}
    web = {**HELD, "networkName": "front", "serviceName": "idle", "ports": ["80:80:TCP"]}
    filled.ask("POST", "/api/v2/serviceLBs", {**web, "selectors": ["app=nobody"]})
    try:
        shown.go("")
        shown.await_text("No host has registered yet.")
        total = shown.page.get_by_role("link", name=f"{filled.endpoints:,} Endpoints")
        expect(total).to_have_attribute("href", "#/endpoints")
        fails = shown.page.get_by_role("region", name="What fails")
        expect(fails).to_contain_text("Service default:idle has no provider")
        full = shown.page.get_by_role("region", name="What is full")
        for name in ("last", "last2"):
            pod = {**endpoint(name, 0, "h-new"), "NetworkName": "small", "ServiceName": ""}
            pod["ConfigEP"]["ServiceName"] = ""
            filled.ask("POST", "/plugin/createEndpoint", pod)
        # without being asked again: the stream tells that endpoints have changed
        expect(full).to_contain_text("Network default:small: 100 % of 10.8.0.0/30 used, 0 free")
        shown.page.get_by_role("link", name="Network default:small").click()
        shown.await_text("default small: addresses of 2 endpoints")
        shown.go("overview")
        changed = shown.page.get_by_role("region", name="What changed")
        expect(changed.locator("time").first).to_have_text(MOMENT)
        changed.get_by_role("link", name="create serviceLBs default:idle").click()
        expect(shown.page.locator("h1")).to_have_text("Changes")
    finally:
        for name in ("last", "last2"):
            filled.ask(
                "POST",
                "/plugin/deleteEndpoint",
                {**gone(0), "NetworkName": "small", "EndpointID": name},
            )
        filled.ask("DELETE", "/api/v2/networks/default:small")
        filled.ask("DELETE", "/api/v2/serviceLBs/default:idle")


def test_a_policy_tells_its_rules_in_their_order(shown: Shown) -> None:
    shown.go("policies")
    shown.page.get_by_role("button", name="doors", exact=True).click()
    rules = shown.page.get_by_role("region", name="Rules of default:doors").locator("tbody tr")
    expect(rules).to_have_count(2)
    expect(rules.nth(0)).to_contain_text("tcp/80")
    expect(rules.nth(0)).to_contain_text(f"fromEndpointGroup {group(0)}")
    expect(rules.nth(1)).to_contain_text("deny")
    expect(rules.nth(1)).not_to_contain_text("not known")
    assert shown.faults() == []


def test_a_service_tells_who_serves_it(shown: Shown, filled: Filled) -> None:
    key = "/api/v2/serviceLBs/default:shop"
    ports = {"ports": ["80:8080:TCP"], "selectors": ["app=web"]}
    named = {**HELD, "networkName": "front", "serviceName": "shop", **ports}
    filled.ask("POST", "/api/v2/serviceLBs", named)
    try:
        shown.go("services")
        row = shown.page.get_by_role("row").filter(has_text="shop")
        expect(row).to_contain_text("by nobody")
        row.get_by_role("button", name="shop").click()
        told = shown.page.get_by_role("region", name="What is chosen")
        expect(told).to_contain_text("Nobody serves it.")
        assert shown.faults() == []
        start = {"Event": "start", "EndpointID": f"{0:012x}", "ContainerID": f"{0:012x}"}
        on = {"Network": "front", "Tenant": "default", "EPCommonName": "pod-000000000000"}
        labels = {"Labels": {"app": "web"}}
        filled.ask("POST", "/plugin/updateEndpoint", {**start, **on, **labels})
        expect(row).to_contain_text("yes")
        expect(told).to_contain_text("pod-000000000000")
        shown.go("reach?tenant=default")
        services = shown.page.get_by_role("region", name="Services", exact=True).first
        expect(services).to_contain_text("80:8080:TCP")
        assert shown.faults() == []
    finally:
        filled.ask("DELETE", key)


def test_a_session_that_a_host_does_not_tell_of_is_not_well(shown: Shown, filled: Filled) -> None:
    router = {"hostname": "h-bgp", "routerip": "10.66.0.1/24", "as": "65001"}
    neighbour = {"neighbor": "10.66.0.2", "neighbor-as": "65002"}
    filled.ask("POST", "/api/v2/Bgps", {**router, **neighbour})
    try:
        shown.go("bgp")
        shown.await_text("0 of 1 sessions are established")
        row = shown.page.get_by_role("row").filter(has_text="h-bgp")
        expect(row).to_contain_text("not known: host h-bgp: no netplugin is registered")
        assert shown.faults() == []
    finally:
        filled.ask("DELETE", "/api/v2/Bgps/h-bgp")
    shown.await_text("No host speaks BGP.")


def test_checks_and_the_archive_are_buttons(shown: Shown) -> None:
    shown.go("selftest")
    shown.page.get_by_role("button", name="Test now").click()
    shown.await_text("No host has registered yet, so nothing was tested.")
    with shown.held("diagnosis"):
        shown.page.get_by_role("button", name="Make a diagnosis").click()
        expect(shown.page.get_by_role("status").filter(has_text="Asking all")).to_be_visible()
    with shown.page.expect_download() as kept:
        shown.page.locator("a.save").click()
    assert kept.value.suggested_filename == "contiv-diagnosis.tar.gz"
    assert tarfile.is_tarfile(kept.value.path())
    assert shown.faults() == []


def test_a_capture_of_nobody_is_refused_with_words(shown: Shown) -> None:
    shown.go("capture?endpoint=nobody")
    shown.page.get_by_role("button", name="Capture", exact=True).click()
    shown.await_text("endpoint not found")
    expect(shown.page.get_by_role("button", name="Capture", exact=True)).to_be_enabled()


def test_times_have_a_date_and_a_zone(chromium: Browser, filled: Filled) -> None:
    with opened(chromium, filled.url, timezone_id="Asia/Kolkata") as shown:
        shown.go("changes")
        expect(shown.page.locator("tbody time").first).to_have_text(MOMENT)
        expect(shown.page.locator("tbody time").first).to_contain_text("UTC+05:30")


@pytest.mark.parametrize("view", ["overview", "hosts", "endpoints", "addresses"])
def test_a_page_that_is_left_alone_asks_nothing(shown: Shown, view: str) -> None:
    """One stream tells of changes; nothing is asked again and again."""
    shown.go(view)
    shown.await_text(VIEWS[view])
    shown.page.locator("#link[data-state=live]").wait_for()
    last = "Math.max(...performance.getEntriesByType('resource').map((one) => one.startTime))"
    quiet = f"performance.now() - {last} > 3000"
    eventually(lambda: shown.page.evaluate(quiet), "three seconds without a request")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_phone_shows_rows_first(
    chromium: Browser, filled: Filled, scheme: Any, picture: Picture
) -> None:
    with opened(chromium, filled.url, color_scheme=scheme) as shown:
        shown.page.set_viewport_size({"width": 375, "height": 700})
        for view, text in VIEWS.items():
            shown.go(view)
            shown.await_text(text)
            assert shown.page.evaluate("document.documentElement.scrollWidth") <= 375, view
            assert shown.faults() == [], view
        shown.go("reach")
        shown.await_text("What Kubernetes says")
        expect(shown.page.get_by_label("Namespace")).not_to_be_visible()
        shown.go("endpoints")
        row = shown.page.get_by_role("button", name="10.1.0.1", exact=True)
        expect(row).to_be_in_viewport()
        expect(shown.page.get_by_label("Host", exact=True)).not_to_be_visible()
        if filled.endpoints == 1_000:
            picture(shown, f"phone-{scheme}")
        shown.page.get_by_text("Filters").click()
        expect(shown.page.get_by_label("Host", exact=True)).to_be_visible()


def test_a_long_list_can_be_scrolled_to_its_end(shown: Shown, filled: Filled) -> None:
    if filled.endpoints != 1_000:
        pytest.skip("one size is enough")
    shown.go(f"endpoints?group={group(3)}&tenant=default")
    shown.await_text("63 endpoints")
    region = shown.page.get_by_role("region", name="Endpoints")
    region.focus()
    shown.page.keyboard.press("End")
    table = shown.page.locator("table.rows")
    expect(table).to_have_attribute("aria-rowcount", "64")
    expect(table.locator("tr[aria-rowindex='64']")).to_be_visible()


def test_names_are_shown_as_they_are(shown: Shown, filled: Filled) -> None:
    body = endpoint(f"bad{filled.endpoints}", 0, "h-bad", BAD_NAME)
    filled.ask("POST", "/plugin/createEndpoint", body)
    start = {"Event": "start", "EndpointID": f"bad{filled.endpoints}", "ContainerID": "bad"}
    named = {"Network": "front", "Tenant": "default", "EPCommonName": BAD_NAME}
    filled.ask("POST", "/plugin/updateEndpoint", {**start, **named, "Labels": {BAD_NAME: BAD_NAME}})
    shown.go("endpoints?host=h-bad")
    expect(shown.page.locator("tbody")).to_contain_text(f"{BAD_NAME}={BAD_NAME}")
    shown.page.locator("tbody .open").click()
    told = shown.page.get_by_role("region", name="What is chosen")
    expect(told.locator("h2")).to_have_text(BAD_NAME)
    expect(told).to_contain_text(f"{BAD_NAME}={BAD_NAME}")
    assert shown.page.locator("main img").count() == 0


def test_the_matrix_tells_the_deciding_rule(
    chromium: Browser, filled: Filled, picture: Picture
) -> None:
    for scheme in SCHEMES:
        with opened(chromium, filled.url, color_scheme=scheme) as shown:
            shown.go("reach?tenant=default")
            cell = shown.page.get_by_role("button", name=f"{group(0)} to {group(1)}:")
            cell.click()
            told = shown.page.get_by_role("region", name=f"Rules for {group(0)} to {group(1)}")
            expect(told.get_by_role("row").nth(2)).to_contain_text("tcpdenieddefault:doors:1")
            expect(told.get_by_role("row").nth(3)).to_contain_text("tcp/80alloweddefault:doors:2")
            assert shown.faults() == []
            if filled.endpoints == 10:
                picture(shown, f"reach-rules-{scheme}")


def test_a_cluster_without_policies_of_kubernetes_says_what_would_make_one(shown: Shown) -> None:
    shown.go("reach?tenant=default&pod=web-1&namespace=shop")
    said = shown.page.get_by_role("region", name="What Kubernetes says")
    expect(said).to_contain_text("No policy of Kubernetes judges these pods.")
    expect(said.locator("code")).to_have_text("kubectl create -f policy.yaml")
    expect(said.get_by_label("Pod")).to_have_value("web-1")
    assert shown.faults() == []


def test_the_heat_map_shows_the_blocks_of_a_network(
    chromium: Browser, filled: Filled, picture: Picture
) -> None:
    with opened(chromium, filled.url) as shown:
        shown.go("addresses")
        shown.page.get_by_role("button", name="front").click()
        shown.await_text("256 blocks of 256")
        used = shown.page.get_by_role("link", name="10.1.0.0/24")
        expect(used).to_have_count(1)
        assert shown.page.locator("a.block").count() >= filled.endpoints // 256
        assert shown.faults() == []
        if filled.endpoints == 10_000:
            picture(shown, "heat-light")
        used.click()
        shown.await_text("pod-000000000000")


def test_what_if_shows_both_sides_and_changes_nothing(
    chromium: Browser, filled: Filled, picture: Picture
) -> None:
    for scheme in SCHEMES:
        with opened(chromium, filled.url, color_scheme=scheme) as shown:
            shown.go("what-if")
            shown.page.get_by_label("Rule id").fill("9")
            shown.page.get_by_label("Action", exact=True).select_option("deny")
            shown.page.get_by_label("Protocol", exact=True).select_option("udp")
            shown.page.get_by_label("Port", exact=True).fill("53")
            shown.page.get_by_label("Other end").select_option("fromEndpointGroup")
            shown.page.get_by_label("Its name or address").fill(group(0))
            shown.page.get_by_role("button", name="Try it").click()
            now, then = (shown.page.get_by_role("region", name=one) for one in ("Now", "Then"))
            row = f"{group(0)} → {group(1)}udp/53"
            expect(now.get_by_role("row").filter(has_text=row)).to_contain_text("allowed")
            expect(then.get_by_role("row").filter(has_text=row)).to_contain_text("default:doors:9")
            assert shown.faults() == []
            if filled.endpoints == 10:
                picture(shown, f"what-if-both-{scheme}")
    assert filled.master.ask("GET", "/api/v2/rules/default:doors:9").status == 404


def test_what_if_can_make_the_change(shown: Shown, filled: Filled) -> None:
    name = group(2)
    shown.go("what-if")
    shown.page.get_by_label("Change", exact=True).select_option("policies")
    shown.page.get_by_label("Group", exact=True).select_option(f"default:{name}")
    shown.page.get_by_label("Policies it shall have", exact=True).select_option("default:doors")
    shown.page.get_by_role("button", name="Try it").click()
    shown.page.get_by_role("button", name="Make this change").click()
    shown.await_text("The change is made.")
    policies = f"/api/v2/endpointGroups/default:{name}"
    assert '"policies":["doors"]' in filled.master.ask("GET", policies).text
    shown.page.get_by_label("Change", exact=True).select_option("policies")
    shown.page.get_by_label("Group", exact=True).select_option(f"default:{name}")
    shown.page.get_by_label("Policies it shall have", exact=True).select_option([])
    shown.page.get_by_role("button", name="Try it").click()
    shown.page.get_by_role("button", name="Make this change").click()
    shown.await_text("The change is made.")
    assert '"policies":[]' in filled.master.ask("GET", policies).text


def test_a_refused_change_tells_why(shown: Shown) -> None:
    shown.go("what-if")
    shown.page.get_by_label("Rule id").fill("1")
    shown.page.get_by_role("button", name="Try it").click()
    shown.await_text("default:doors:1 exists already")


def seen(selector: str, text: str) -> str:
    """Return the condition that a text is in one of the elements."""
    return (
        f"[...document.querySelectorAll({selector!r})].some(one => one.textContent.includes("
        f"{text!r}))"
    )


def test_a_change_is_on_the_screen_soon(shown: Shown, filled: Filled) -> None:
    rows, ask = "main tbody tr", filled.ask

    def live(view: str, text: str) -> None:
        shown.go(view)
        shown.await_text(text)
        shown.page.locator("#link[data-state=live]").wait_for()

    def both(what: str, there: Callable[[int], None], back: Callable[[int], None], on: Any) -> None:
        took = []
        for number in range(REPEATS):
            took.append(shown.took(lambda n=number: there(n), on(number)))  # type: ignore[misc]
            took.append(shown.took(lambda n=number: back(n), f"!({on(number)})"))  # type: ignore[misc]
        tell(filled, f"{what}: change to screen", took)

    live("tenants", OTHER)
    both(
        "tenants",
        lambda n: ask("POST", "/api/v2/tenants", {"tenantName": f"new{n}"}),
        lambda n: ask("DELETE", f"/api/v2/tenants/new{n}"),
        lambda n: seen(rows, f"new{n}"),
    )
    live("networks?search=added", "0 of 3")
    both(
        "networks",
        lambda n: ask("POST", "/api/v2/networks", network(n)),
        lambda n: ask("DELETE", f"/api/v2/networks/default:added{n}"),
        lambda n: seen(rows, f"added{n}"),
    )
    live("groups?search=added", "0 of")
    both(
        "groups",
        lambda n: ask("POST", "/api/v2/endpointGroups", a_group(n)),
        lambda n: ask("DELETE", f"/api/v2/endpointGroups/default:added{n}"),
        lambda n: seen(rows, f"added{n}"),
    )
    live("endpoints?host=h-new", "No endpoint is like that.")
    both(
        "endpoints",
        lambda n: ask("POST", "/plugin/createEndpoint", endpoint(f"new{n}", 0, "h-new")),
        lambda n: ask("POST", "/plugin/deleteEndpoint", gone(n)),
        lambda n: seen(rows, f"pod-new{n}"),
    )
    live("addresses", "10.1.0.0/16")
    both(
        "addresses",
        lambda n: ask("POST", "/api/v2/networks", network(n)),
        lambda n: ask("DELETE", f"/api/v2/networks/default:added{n}"),
        lambda n: seen(".heat li", f"added{n}"),
    )
    live("reach", "Rows open connections")
    denied = f"[aria-label={f'{group(0)} to {group(1)}: everything is denied'!r}]"
    both(
        "reach",
        lambda _: ask("POST", "/api/v2/rules", DENY_ALL),
        lambda _: ask("DELETE", "/api/v2/rules/default:doors:all"),
        lambda _: f"document.querySelector({denied!r}) !== null",
    )
    live("changes", "doors")
    newest = "main tbody tr[aria-rowindex='2']"
    both(
        "changes",
        lambda n: ask("POST", "/api/v2/tenants", {"tenantName": f"told{n}"}),
        lambda n: ask("DELETE", f"/api/v2/tenants/told{n}"),
        lambda n: f"({seen(newest, f'told{n}')} && {seen(newest, 'create')})",
    )


DENY_ALL: Final = {
    **HELD,
    "policyName": "doors",
    "ruleId": "all",
    "direction": "in",
    "action": "deny",
    "priority": 99,
}


def network(number: int) -> dict[str, Any]:
    named = {**HELD, "networkName": f"added{number}", "encap": "vxlan"}
    return {**named, "subnet": f"10.9.{number}.0/24", "gateway": f"10.9.{number}.254"}


def a_group(number: int) -> dict[str, Any]:
    return {**HELD, "groupName": f"added{number}", "networkName": "front"}


def gone(number: int) -> dict[str, Any]:
    return {"TenantName": "default", "NetworkName": "front", "EndpointID": f"new{number}"}


def test_everything_can_be_done_by_keyboard_alone(shown: Shown) -> None:
    press, page = shown.page.keyboard.press, shown.page
    shown.go("tenants")
    shown.await_text(OTHER)
    focused = "document.activeElement.textContent"
    page.evaluate("document.activeElement.blur()")
    press("Tab")
    assert page.evaluate(focused) == "Skip to content"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator(".skip").focus()
    reached = []
    for _ in range(13):
        press("Tab")
        reached.append(page.evaluate(focused))
        assert page.evaluate(outline) == "solid"
    sections = ["Overview", "Hosts", "Network", "Policy", "Flows", "Diagnose", "Changes"]
    assert reached[:7] == sections
    assert reached[7:13] == [
        "Endpoints",
        "Networks",
        "Addresses",
        "Groups",
        "Services",
        "Tenants",
    ]
    page.get_by_role("link", name="Policy", exact=True).focus()
    press("Enter")
    shown.await_text("doors")
    page.get_by_role("link", name="Who may talk", exact=True).first.focus()
    press("Enter")  # the matrix
    expect(page.locator("h1")).to_be_focused()
    shown.await_text("Rows open connections")
    page.get_by_role("region", name="Matrix").focus()
    press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowUp"):
        press(key)
    assert page.evaluate("document.activeElement.dataset.at") == "0,1"
    press("Enter")
    shown.await_text("default:doors:1")
    assert page.evaluate("document.activeElement.dataset.at") == "0,1"
    press("Tab")  # one stop for all cells
    assert page.evaluate("document.activeElement.dataset.at") is None


def test_a_lost_stream_is_told_and_taken_up_again(shown: Shown, filled: Filled) -> None:
    shown.go("tenants")
    shown.await_text(OTHER)
    shown.page.locator("#link[data-state=live]").wait_for()
    filled.master.kill()
    shown.page.locator("#link[data-state=lost]").wait_for()
    filled.master.start()
    shown.page.locator("#link[data-state=live]").wait_for()
    filled.ask("POST", "/api/v2/tenants", {"tenantName": "after"})
    shown.await_text("after")
    filled.ask("DELETE", "/api/v2/tenants/after")
