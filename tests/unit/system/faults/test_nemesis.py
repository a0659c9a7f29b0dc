"""Every plan holds every fault, and leaves the store its majority but once."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.system.faults.nemesis import BORNE, OF_STORE, Kind, plan


@given(st.integers(0, 2**32))
def test_a_plan_holds_every_fault(seed: int) -> None:
    rounds = plan(Random(seed))
    assert {fault.kind for faults in rounds for fault in faults} == set(Kind)
    for faults in rounds:
        alone = any(fault.kind is Kind.LOSE_MAJORITY for fault in faults)
        assert len(faults) == (1 if alone else 2)
        assert sum(fault.kind in OF_STORE for fault in faults) == len(faults) - 1
        for fault in faults:
            least, most = BORNE.get(fault.kind, (0.0, 1.5))
            assert least <= fault.lasts <= most


def test_a_seed_repeats_its_plan() -> None:
    assert plan(Random(7)) == plan(Random(7)) != plan(Random(8))
