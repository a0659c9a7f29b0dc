"""Who sees what: logins, roles, and where the token is. Run by `make ui-check`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect

from tests.bed.identities import Identities
from tests.bed.master import PROGRAM, Master
from tests.bed.store import STORES
from tests.ui.browser import Shown, opened

pytestmark = [pytest.mark.store, pytest.mark.timeout(900)]

PASSWORD: Final = "correct horse"
USERS: Final = {"joe": ("admin", ""), "olga": ("operator", "blue"), "rita": ("reader", "")}
FORMS: Final = (
    ("tenants", {"tenantName": "blue"}),
    ("networks", {"networkName": "n1", "encap": "vxlan", "subnet": "10.1.0.0/24"}),
    ("policys", {"policyName": "p1"}),
)


@pytest.fixture(scope="module")
def master(bed_dirs: Iterator[Path]) -> Iterator[Master]:
    """Run a netmaster with TLS and a user of each role."""
    directory = next(bed_dirs)
    directory.mkdir()
    store = STORES["etcd"](directory)
    store.start()
    identities = Identities(directory / "tls", lambda *_: None)
    identities.initialize()
    identities.issue("master", "master", "127.0.0.1")
    identities.issue("admin", "admin")
    found = Master(directory, store, identities=identities)
    try:
        for name, (role, tenant) in USERS.items():
            words = ["--name", name, "--role", role, f"--{store.kind}", store.url]
            words += ["--tenant", tenant] if tenant else []
            subprocess.run(
                [PROGRAM, "set-user", *words], input=f"{PASSWORD}\n".encode(), check=True
            )
        found.start()
        for tenant in ("blue", "default"):
            for plural, body in FORMS[tenant == "default" :]:
                sent: dict[str, Any] = {"tenantName": tenant, **body}
                answer = found.ask("POST", f"/api/v2/{plural}", sent)
                assert answer.status == 201, answer.text
        yield found
    finally:
        found.kill()
        store.kill()


@pytest.fixture
def shown(chromium: Browser, master: Master) -> Iterator[Shown]:
    with opened(chromium, master.url) as page:
        yield page


def log_in(shown: Shown, name: str, password: str = PASSWORD) -> None:
    shown.page.get_by_label("User name").fill(name)
    shown.page.get_by_label("Password").fill(password)
    shown.page.keyboard.press("Enter")


def test_a_stranger_is_asked_who_it_is(shown: Shown) -> None:
    shown.go("tenants")
    expect(shown.page.locator("h1")).to_have_text("Log in")
    expect(shown.page.get_by_label("User name")).to_be_focused()
    assert shown.faults() == []
    log_in(shown, "rita", "wrong")
    shown.await_text("Invalid username/password")
    log_in(shown, "rita")
    shown.await_text("blue")  # the view that was asked for
    expect(shown.page.locator("#who")).to_have_text("rita, reader")
    shown.page.locator("#link[data-state=live]").wait_for()


@pytest.mark.parametrize("view", ["hosts", "endpoints", "addresses"])
def test_a_view_that_asks_again_leaves_the_form_alone(
    shown: Shown, master: Master, view: str
) -> None:
    """Its token ends while it is on the screen; the stream is the first that is refused."""
    shown.page.clock.install()
    shown.go(view)
    log_in(shown, "rita")
    expect(shown.page.locator("h1")).not_to_have_text("Log in")
    shown.page.locator("#link[data-state=live]").wait_for()
    shown.page.evaluate("sessionStorage.setItem('contiv-token', 'none')")
    master.kill()
    master.start()
    expect(shown.page.locator("h1")).to_have_text("Log in")
    form = shown.page.locator("form").element_handle()
    shown.page.get_by_label("User name").fill("joe")
    asked = shown.page.evaluate("performance.getEntriesByType('resource').length")
    shown.page.clock.run_for(5_000)  # longer than any view waits between two questions
    assert shown.page.evaluate("performance.getEntriesByType('resource').length") == asked
    assert shown.page.evaluate("(form) => form.isConnected", form)
    expect(shown.page.get_by_label("User name")).to_have_value("joe")


def test_the_token_is_kept_for_the_tab_alone(shown: Shown) -> None:
    shown.go("tenants")
    log_in(shown, "rita")
    shown.await_text("blue")
    assert shown.page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 1]
    assert shown.page.context.cookies() == []
    shown.page.reload()
    shown.await_text("blue")
    shown.page.get_by_role("button", name="Log out").click()
    expect(shown.page.locator("h1")).to_have_text("Log in")
    assert shown.page.evaluate("sessionStorage.length") == 0


def test_a_token_that_is_refused_leads_to_the_form(shown: Shown) -> None:
    shown.go("tenants")
    log_in(shown, "rita")
    shown.await_text("blue")
    shown.page.evaluate("sessionStorage.setItem('contiv-token', 'none')")
    shown.go("networks")
    expect(shown.page.locator("h1")).to_have_text("Log in")


def test_a_reader_is_offered_no_change(shown: Shown) -> None:
    shown.go("what-if")
    log_in(shown, "rita")
    shown.await_text("Your role, reader, may read but not change")
    assert shown.page.locator("main button").count() == 0
    shown.go("hosts")
    shown.await_text("No host has registered yet.")


def test_an_operator_sees_its_own_tenants_and_may_try_changes(shown: Shown) -> None:
    shown.go("networks")
    log_in(shown, "olga")
    shown.await_text("1 of 1")
    expect(shown.page.locator("tbody")).to_contain_text("blue")
    shown.go("hosts")
    shown.await_text("Your role may not see this")
    shown.go("overview")
    shown.await_text("Hosts are not for your role.")
    assert shown.page.get_by_role("link", name="1 Networks").count() == 1
    shown.go("reach")
    expect(shown.page.get_by_label("Tenant", exact=True)).to_have_value("blue")
    shown.await_text("0 groups")
    shown.await_text("Your role may not see what Kubernetes says")
    shown.go("what-if")
    expect(shown.page.get_by_label("Policy", exact=True).locator("option")).to_have_text(
        ["blue:p1"]
    )
    shown.page.get_by_label("Rule id").fill("1")
    shown.page.get_by_role("button", name="Try it").click()
    shown.page.get_by_role("button", name="Make this change").wait_for()


def test_an_administrator_sees_everything(shown: Shown) -> None:
    shown.go("networks")
    log_in(shown, "joe")
    shown.await_text("2 of 2")
    shown.go("hosts")
    shown.await_text("No host has registered yet.")
