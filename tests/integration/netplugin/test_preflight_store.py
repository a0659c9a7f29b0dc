"""`netplugin preflight` tells what other clients refuse of a store that daemons accept."""

from pathlib import Path

import pytest

from netplugin.commands import store_checks
from netplugin.commands.findings import Note
from netplugin.settings import AgentSettings
from tests.bed.certificates import make_certificates
from tests.bed.secured import Secured, SecuredEtcd, with_tls
from tests.unit.netplugin.commands.preflight import FLAGS
from tests.unit.netplugin.settings import settings_of

pytestmark = pytest.mark.store


@pytest.fixture
def store(bed_dir: Path, store_kind: str) -> Secured:
    """Return a store whose authority is as `openssl req -x509` makes it, without keyUsage."""
    make_certificates(bed_dir)
    return with_tls(store_kind, bed_dir)


def named(store: Secured, directory: Path, monkeypatch: pytest.MonkeyPatch) -> AgentSettings:
    files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    paths = {name: str(directory / file) for name, file in files.items()}
    if isinstance(store, SecuredEtcd):
        flags = [word for name, path in paths.items() for word in (f"--store-{name}", path)]
        return settings_of([*FLAGS, "--etcd", store.url, *flags])
    variables = {"ca": "CONSUL_CACERT", "cert": "CONSUL_CLIENT_CERT", "key": "CONSUL_CLIENT_KEY"}
    for name, variable in variables.items():
        monkeypatch.setenv(variable, paths[name])
    return settings_of([*FLAGS, "--consul", store.url])


async def test_an_authority_that_strict_clients_refuse_is_a_note(
    store: Secured, bed_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = named(store, bed_dir, monkeypatch)
    unread = await store_checks.certificates(wanted)
    store.start()
    try:
        found = await store_checks.certificates(wanted)
        assert (await store_checks.store(wanted)).startswith(str(wanted.store))
    finally:
        store.kill()
    assert isinstance(unread, Note)
    assert unread.found.startswith("not looked at: store ")
    assert isinstance(found, Note)
    assert found.found.endswith(
        "daemons accept it, strict clients refuse it: CA cert does not include key usage extension"
    )
