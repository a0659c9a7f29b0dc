"""Rules of all kinds on real packets: between nine pods on three hosts, as the oracle says.

The cases are few, and any two choices of what a rule can be meet in one (`policy_cases`).
How long it takes until a change of rules is in force everywhere is printed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ofnet.tables import mode_of
from ofnet.world import FwdMode
from tests.bed.cluster import Bed
from tests.model.policy_cases import pairwise_cases
from tests.system.planes import FWD_MODES, NETWORKS, addresses, planes
from tests.system.rest import ask
from tests.system.truth_table import ASKED, BRIDGES, RULE_PATH, add_pods, expected, post
from tests.system.ways import Ways

pytestmark = [
    pytest.mark.system,
    pytest.mark.usefixtures("no_pods_left"),
]


@pytest.fixture(scope="module", params=FWD_MODES)
def fwd_mode(request: pytest.FixtureRequest) -> str:
    """Say in which forwarding mode the cluster is."""
    return str(request.param)


@pytest.fixture(scope="module")
def bed(fwd_mode: str, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of three hosts in a forwarding mode."""
    with planes(next(bed_dirs), fwd_mode, hosts=3) as bed:
        yield bed


@pytest.mark.parametrize("network", list(NETWORKS))
def test_rules_mean_what_they_say(bed: Bed, fwd_mode: str, network: str) -> None:
    pods = add_pods(bed, network)
    mode = mode_of(BRIDGES[network], FwdMode(fwd_mode))
    failures: list[str] = []
    met: set[bool] = set()
    for case in (case for case in pairwise_cases() if case.mode is mode):
        address = addresses(pods["db2"])[case.family == "ipv6"]
        rules = case.rules(port=ASKED, group="db", network=network, address=address)
        waited = post(bed, network, rules)
        print(f"{case.name}: in force everywhere after {waited:.2f} s")  # noqa: T201 - measured
        verdicts = expected(case, network, rules, pods)
        met |= set(verdicts.values())
        wrong = Ways(pods, 4 if case.family == "ipv4" else 6).wrong(verdicts)
        failures += [f"{case.name}: {line}" for line in wrong]
        for rule in rules:
            path = RULE_PATH.format(network=network, name=rule.name)
            assert ask(bed, "DELETE", path).status == 200
    assert failures == []
    assert met == {True, False}
