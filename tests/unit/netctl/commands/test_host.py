"""`netctl host`."""

import pytest

from tests.unit.netctl.master import Netctl


def test_drain_and_undo_say_how_the_host_is(netctl: Netctl) -> None:
    done = netctl("host", "drain", "h1")
    assert (done.code, done.out) == (0, "Host h1 is drained, it has 3 endpoints\n")
    done = netctl("host", "drain", "h1", "--undo")
    assert (done.code, done.out) == (0, "Host h1 is not drained, it has 3 endpoints\n")
    assert netctl.master.drained == {"h1": False}


@pytest.mark.parametrize(
    ("words", "force"), [(["h1"], False), (["h1", "--force"], True), (["-f", "h1"], True)]
)
@pytest.mark.parametrize("name", ["rm", "delete"])
def test_rm_removes_a_host(words: list[str], force: bool, name: str, netctl: Netctl) -> None:
    done = netctl("host", name, *words)
    assert (done.code, done.out) == (0, "Deleting host h1\n")
    assert netctl.master.removed == [("h1", force)]


@pytest.mark.parametrize("verb", ["drain", "rm"])
@pytest.mark.parametrize("words", [[], ["a", "b"], [""]])
def test_one_name_is_required(verb: str, words: list[str], netctl: Netctl) -> None:
    done = netctl("host", verb, *words)
    assert (done.code, done.message) == (1, '"Host name required"')


@pytest.mark.parametrize("verb", ["drain", "rm"])
def test_a_refusal_is_shown(verb: str, netctl: Netctl) -> None:
    netctl.master.refusal = "host h1 has 3 endpoints"
    done = netctl("host", verb, "h1")
    assert (done.code, done.message) == (3, '"host h1 has 3 endpoints"')
