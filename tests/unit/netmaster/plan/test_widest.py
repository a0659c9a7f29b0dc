"""What a plan does at most in one transaction is taken by every store."""

import pytest

from netmaster.api.v2 import idempotency
from netmaster.plan.endpoints import address, cleanup, dead_hosts
from netmaster.plan.objects import netprofile, network, policy
from netmaster.plan.show import ipam_check
from objdb.api import Change, Delete, Limits, Put, Unchanged, admit
from objdb.consul import ConsulBackend
from objdb.etcd import EtcdBackend


@pytest.mark.parametrize("limits", [EtcdBackend.limits, ConsulBackend.limits])
@pytest.mark.parametrize(
    ("puts", "deletes"),
    [
        (0, cleanup.CHUNK * 3),  # a record and an address of each family
        (netprofile.CHUNK + 1, 0),  # groups' records and the profile
        (0, policy.CHUNK + 1),  # rules and the policy
        (0, address.CHUNK),
        (0, ipam_check.CHUNK),
        (0, dead_hosts.CHUNK),
        (1, policy.CHUNK + 1),  # with an answer that is kept
        (1, network.SWEEP + 4),
        (3, idempotency.ROOM),
        (2, policy.CHUNK + 1),
        (2, network.SWEEP + 4),
        (netprofile.CHUNK + 3, 0),
    ],
)
def test_parts_fit(limits: Limits, puts: int, deletes: int) -> None:
    keys = [f"/{number}" for number in range(puts + deletes)]
    checks = tuple(Unchanged(key, 1) for key in keys)
    ops = [Put(key, b"") if number < puts else Delete(key) for number, key in enumerate(keys)]
    admit([Change(checks, tuple(ops))], limits)
