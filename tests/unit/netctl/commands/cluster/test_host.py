"""`netctl host`."""

from typing import Any, cast

import pytest

from contivmodel.client_sync import RestClient
from netctl.commands.cluster.host import wait_until_applied
from tests.unit.netctl.master import Netctl


def state(label: str, *, behind: str = "", registered: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "label": label,
        "controlIP": "192.0.2.1",
        "vtepIP": "198.51.100.1",
        "uplinkMACs": [],
        "version": "1.0",
        "registered": registered,
        "ends": [],
        "applied": not behind,
        "behind": behind,
        "errors": [],
        "endpoints": 3,
        "drained": False,
        **more,
    }


NETS = "state/nets/ at 3 of 7"
NONE = "no agent is registered"
PLACE = ["192.0.2.1", "198.51.100.1", "1.0"]
COLUMNS = [
    *("Name", "Address", "VTEP", "Version", "Agent"),
    *("Applied", "Drained", "Endpoints", "Errors"),
]


def test_ls_is_a_table(netctl: Netctl) -> None:
    late = state("h2", behind=NONE, registered=False, errors=["a", "b"], drained=True)
    netctl.master.host_states = lambda _: [state("h1"), late]
    lines = netctl("host", "ls").out.splitlines()
    assert [line.split() for line in lines] == [
        COLUMNS,
        ["-" * len(name) for name in COLUMNS],
        ["h1", *PLACE, "registered", "yes", "no", "3", "0"],
        ["h2", *PLACE, "none", "no", "yes", "3", "2"],
    ]
    assert netctl("host", "list", "-q").out == "h1\nh2\n"
    assert netctl("host", "ls", "--json").out.startswith('[\n  {\n    "label": "h1",\n')


def test_ls_says_since_when_an_agent_is_missing(netctl: Netctl) -> None:
    gone = state("h1", behind=NONE, registered=False, missingSince=1700000000.5)
    netctl.master.host_states = lambda _: [gone]
    assert "  none since 2023-11-14T22:13:20+00:00  no " in netctl("host", "ls").out


def test_ls_says_that_an_upgrade_is_half_done(netctl: Netctl) -> None:
    netctl.master.host_states = lambda _: [state("h1", masterVersion="1.1"), state("h2")]
    shown = netctl("host", "ls").out
    assert "  1.0 (netmaster 1.1)  " in shown
    assert shown.count("netmaster") == 1


def test_inspect_prints_all_of_it(netctl: Netctl) -> None:
    netctl.master.host_states = lambda _: [state("h1"), state("h2")]
    assert '"label": "h2"' in netctl("host", "inspect", "h2").out
    netctl.master.refusal = "host h3 not found\n"
    refused = netctl("host", "inspect", "h3")
    assert (refused.code, refused.message) == (3, '"host h3 not found\n"')
    assert netctl("host", "inspect").message == '"Host name required"'


def test_applied_is_a_success_only_when_all_registered_hosts_have(netctl: Netctl) -> None:
    netctl.master.host_states = lambda _: [state("h1"), state("h2")]
    done = netctl("host", "applied")
    assert (done.code, done.out, done.err) == (0, "applied on 2 of 2 hosts\n", "")
    late = state("h2", behind=NETS, errors=["flow refused"])
    netctl.master.host_states = lambda _: [state("h1"), late]
    done = netctl("host", "applied")
    assert (done.code, done.err) == (5, "")
    assert done.out == f"applied on 1 of 2 hosts\nh2: {NETS}; flow refused\n"


@pytest.mark.parametrize("words", [("--wait",), ("--wait", "soon"), ("--unknown",)])
def test_a_wrong_flag_is_not_taken_for_applied(netctl: Netctl, words: tuple[str, ...]) -> None:
    """The finding of docs/notes/trust.md §18."""
    done = netctl("host", "applied", *words)
    assert (done.code, done.out) == (2, "")
    assert "`netctl host applied --help` lists what there is" in done.err


def test_a_host_without_an_agent_is_named_and_not_waited_for(netctl: Netctl) -> None:
    gone = state("h2", behind=NONE, registered=False)
    netctl.master.host_states = lambda _: [state("h1"), gone]
    done = netctl("host", "applied", "--wait", "60")
    assert (done.code, done.out) == (0, f"applied on 1 of 2 hosts\nh2: {NONE}\n")
    assert netctl.master.looks == 1


def waited(netctl: Netctl, wait: float) -> list[dict[str, Any]]:
    return wait_until_applied(cast("RestClient", netctl.master), wait, interval=0.001)


def test_waiting_ends_when_all_have(netctl: Netctl) -> None:
    netctl.master.host_states = lambda look: [state("h1", behind=NETS if look < 4 else "")]
    assert waited(netctl, 60) == [state("h1")]
    assert netctl.master.looks == 4


@pytest.mark.parametrize("before", [[], [state("h1", behind=NONE, registered=False)]])
def test_the_first_agent_is_waited_for(netctl: Netctl, before: list[dict[str, Any]]) -> None:
    """It has been started, and its master does not know it yet."""
    netctl.master.host_states = lambda look: before if look < 4 else [state("h1")]
    assert waited(netctl, 60) == [state("h1")]
    assert netctl.master.looks == 4
    netctl.master.host_states = lambda _: before
    assert waited(netctl, 0.05) == before


def test_applied_waits_as_long_as_it_is_told(netctl: Netctl) -> None:
    netctl.master.host_states = lambda look: [state("h1", behind=NETS if look < 2 else "")]
    done = netctl("host", "applied", "--wait=60")
    assert (done.code, done.out, netctl.master.looks) == (0, "applied on 1 of 1 hosts\n", 2)


def test_waiting_ends_after_its_time(netctl: Netctl) -> None:
    netctl.master.host_states = lambda _: [state("h1", behind=NETS)]
    assert waited(netctl, 0.05) == [state("h1", behind=NETS)]
    assert netctl.master.looks > 1
    done = netctl("host", "applied", "-w", "0")
    assert (done.code, done.out) == (5, f"applied on 0 of 1 hosts\nh1: {NETS}\n")


@pytest.mark.parametrize("wait", ["-1", "nan"])
def test_a_time_that_cannot_be_waited_is_refused(wait: str, netctl: Netctl) -> None:
    done = netctl("host", "applied", "--wait", wait)
    assert (done.code, netctl.master.looks) == (1, 0)


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
