"""`netmaster import` from real stores of the original's kinds: etcd by its API v2, and consul."""

import json
import subprocess
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core import keys
from netmaster.takeover.translation import translate
from objdb import original
from tests.bed.consul import Consul
from tests.bed.etcd import Etcd
from tests.bed.master import PROGRAM, Master
from tests.bed.store import Store
from tests.bed.waiting import WITHIN
from tests.golden.stores import recorded

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd", "consul")]

NAME = "agent-routing-end"


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Iterator[Store]:
    """Run a store of the kind, etcd with the API that the original speaks."""
    store = new_store()
    if isinstance(store, Etcd):
        store.command.append("--enable-v2")
    store.start()
    yield store
    store.kill()


def v2(etcd: Etcd, method: str, path: str, **form: str) -> None:
    """Ask etcd as the original does."""
    body = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(f"{etcd.url}/v2/keys{path}", body, method=method)
    with urllib.request.urlopen(request, timeout=WITHIN):
        pass


def fill(store: Store, values: dict[str, bytes]) -> None:
    """Put the original's keys into a store, where the original keeps them."""
    for key, value in values.items():
        if isinstance(store, Etcd):
            v2(store, "PUT", urllib.parse.quote(key), value=value.decode())
        else:
            store.put(key, value)


def clear(store: Store) -> None:
    """Delete the original's keys."""
    if isinstance(store, Etcd):
        v2(store, "DELETE", "/contiv.io?recursive=true")
    else:
        store.request("DELETE", "/v1/kv/contiv.io/?recurse")


def run(store: Store, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Import into a store."""
    return subprocess.run(
        [PROGRAM, "import", f"--{store.kind}", store.url, *words],
        check=False,
        input=text,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )


def led(store: Store, directory: Path, check: Callable[[Master], None]) -> None:
    """Have a master lead on a store, and look at it."""
    master = Master(directory, store)
    master.start()
    try:
        check(master)
        assert "Traceback" not in master.log_text()
    finally:
        master.kill()


def shows_what_was_there(master: Master) -> None:
    """Look for an endpoint of the original's, and have a new one granted another address."""
    answer: Any = master.ask("GET", "/api/v1/inspect/networks/default:nvxlan/").json()
    before = json.loads(recorded(NAME)[keys.NETWORKS + "nvxlan.default"])
    oper = answer["Oper"]
    assert (oper["numEndpoints"], oper["pktTag"]) == (before["epCount"], before["pktTag"])
    created = master.ask(
        "POST",
        "/plugin/createEndpoint",
        {
            "TenantName": "default",
            "NetworkName": "nvxlan",
            "EPCommonName": "new",
            "ConfigEP": {"Container": "new", "Host": "host1"},
        },
    )
    assert created.status == 200, created.text
    taken = {
        json.loads(value)["ipAddress"]
        for key, value in recorded(NAME).items()
        if key.startswith(keys.ENDPOINTS + "nvxlan.default-")
    }
    granted: Any = created.json()
    assert granted["EndpointConfig"]["ipAddress"] not in taken


def running(values: dict[str, bytes]) -> dict[str, bytes]:
    """Return a store after the original's masters were stopped."""
    return {key: value for key, value in values.items() if not key.startswith(keys.LOCKS)}


def refusals(values: dict[str, bytes]) -> list[str]:
    return [f"--leave-out={one.key}" for one in translate(values).refusals]


def test_recorded_stores_are_read_as_they_are(store: Store) -> None:
    read = original.read_etcd if isinstance(store, Etcd) else original.read_consul
    for name in ("agent-bridge-end", "policies-attached", "plugin-end", "servicelb-providers"):
        values = recorded(name)
        fill(store, values)
        assert read(store.url) == values, name
        clear(store)
    assert read(store.url) == {}


def test_the_cluster_is_led_on(store: Store, new_store: Callable[[], Store], bed_dir: Path) -> None:
    values = running(recorded(NAME))
    fill(store, values)
    source = f"--from-{store.kind}={store.url}"
    target = store
    if isinstance(store, Consul):
        refused = run(store, source, *refusals(values))
        assert (refused.returncode, "consul kv export" in refused.stderr) == (1, True)
        target = new_store()
        target.start()
    try:
        done = run(target, source, *refusals(values))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("imported\n")
        again = run(target, source, *refusals(values))
        assert again.stdout.endswith("imported already, nothing was changed\n")
        led(target, bed_dir, shows_what_was_there)
        read = original.read_etcd if isinstance(store, Etcd) else original.read_consul
        assert read(store.url) == values, "the original's store stays as it is"
    finally:
        target.kill()


def test_a_saved_store_is_imported_in_its_place(store: Store, bed_dir: Path) -> None:
    values = running(recorded(NAME))
    saved = json.dumps(
        [{"key": k.lstrip("/"), "value": b64encode(v).decode()} for k, v in values.items()]
    )
    done = run(store, "--from-file=-", *refusals(values), text=saved)
    assert (done.returncode, done.stderr) == (0, "")
    led(store, bed_dir, shows_what_was_there)


def test_while_the_original_is_led_only_a_report_is_made(store: Store) -> None:
    values = recorded(NAME)
    fill(store, values)
    words = (f"--from-{store.kind}={store.url}", *refusals(values))
    report = run(store, *words, "--dry-run")
    assert (report.returncode, "to import: 25 endpoints" in report.stdout) == (0, True)
    refused = run(store, *words)
    assert refused.returncode == 1
    assert "10.77.0.1:9999 leads the original: stop all of its netmasters" in refused.stderr


def test_a_store_that_is_away_is_told(store: Store) -> None:
    store.kill()
    refused = run(store, f"--from-{store.kind}={store.url}")
    assert refused.returncode == 1
    assert "Connection refused" in refused.stderr
