"""What etcd has more of than a page is read in several."""

import pytest

from objdb.access import StoreAccess
from objdb.api import Change, Put, Snapshot, split
from objdb.etcd import EtcdBackend
from tests.bed.etcd import Etcd
from tests.integration.objdb.conftest import endpoint

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd")]

ROOT = "/test/"
PAGE = 700


async def test_keys_of_several_pages(store: Etcd) -> None:
    known = {f"{ROOT}{number:05}" for number in range(2 * PAGE + 1)}
    backend = EtcdBackend(StoreAccess(endpoints=(endpoint(store),)), page=PAGE)
    for group in split((Change((), (Put(key, b"v"),)) for key in sorted(known)), backend.limits):
        await backend.commit(group)
    assert (await backend.snapshot(ROOT)).entries.keys() == known
    first = await anext(backend.watch(ROOT))
    assert isinstance(first, Snapshot)
    assert first.entries.keys() == known
    await backend.close()
