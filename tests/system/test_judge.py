"""The judge of `test_kills` has nothing to say of a whole store, and misses every half."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from core import keys
from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.waiting import eventually
from tests.property.subjects import SUBJECTS
from tests.system.judge import complaints
from tests.system.succession import leading, send, stored

pytestmark = [pytest.mark.store, pytest.mark.system]

REBUILT: Final = "view rebuilt"
HALVES: Final = {
    "obj/modeldb/tenant/t-net": "does not know it",
    "obj/modeldb/network/t-group:n": "does not know it",
    "obj/modeldb/endpointGroup/t-app:g": "does not know it",
    "obj/modeldb/endpointGroup/t-rule:g": "does not know it",
    "obj/modeldb/policy/t-rule:p": "does not know it",
    "obj/modeldb/netprofile/t-prof:np": "does not know it",
    "obj/modeldb/extContractsGroup/t-contr:c": "does not know it",
    "obj/modeldb/serviceLB/t-serv:s": "has no object",
    "obj/modeldb/Bgp/h-bgp": "has no object",
    "state/nets/n.t-net": "key not found",
    "state/endpointGroups/g:t-app": "key not found",
    "state/serviceLB/s:t-serv": "has no record",
    "state/bgp/h-bgp": "has no record",
    "state/eps/n.t-end-c": "without using it",
    "ipam/n.t-end/10.1.0.5": "without holding it",
    "ipam/n.t-net/10.1.0.1": "is not granted",
    "ipam/n.t-serv/10.1.0.9": "is not granted",
    "master/config/global": "has no record",
}
"""What somebody deletes, and what the judge says."""


def test_the_judge_misses_every_half(store: Store, bed_dir: Path) -> None:
    with leading(store, bed_dir) as master:
        for subject in SUBJECTS:
            # half-way it is there, with what it is linked with
            send(master, *subject.before, *subject.life[: max(1, len(subject.life) // 2)])
        assert complaints(stored(store), master.ask) == []
        for half, said in HALVES.items():
            _loses(store, master, keys.ROOT + half, said)


def _loses(store: Store, master: Master, half: str, said: str) -> None:
    """Delete a key, hear what the judge says, and put the key back."""
    value = store.entries(half)[half]
    with _noticed(master):
        store.delete(half)
    found = complaints(stored(store), master.ask)
    assert any(said in complaint for complaint in found), (half, found)
    with _noticed(master):
        store.put(half, value)
    assert complaints(stored(store), master.ask) == [], half


@contextmanager
def _noticed(master: Master) -> Iterator[None]:
    """Wait until the master has rebuilt its view after what is changed behind its back."""
    before = master.log_text().count(REBUILT)
    yield
    eventually(lambda: master.log_text().count(REBUILT) > before, "the master has rebuilt its view")
