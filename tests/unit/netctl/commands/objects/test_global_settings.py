"""`netctl global`."""

from typing import Any

import pytest

from tests.unit.netctl.master import Netctl

SETTINGS: dict[str, Any] = {
    "key": "global",
    "arpMode": "proxy",
    "fwdMode": "routing",
    "name": "global",
    "networkInfraType": "default",
    "pvtSubnet": "172.30.0.0/16",
    "vlans": "1-4094",
    "vxlans": "1-10000",
}


@pytest.fixture
def stocked(netctl: Netctl) -> Netctl:
    netctl.master.add("globals", SETTINGS)
    return netctl


@pytest.mark.parametrize("words", [[], ["-a"], ["-t", "nope"]])
def test_info_is_one_setting_a_line(words: list[str], stocked: Netctl) -> None:
    assert stocked("global", "info", *words).out == (
        "Fabric mode: default\nForward mode: routing\nARP mode: proxy\nVlan Range: 1-4094\n"
        "Vxlan range: 1-10000\nPrivate subnet: 172.30.0.0/16\n"
    )


def test_info_json_is_a_list(stocked: Netctl) -> None:
    assert stocked("global", "info", "-j").out.startswith('[\n  {\n    "key": "global",\n')


def test_inspect_asks_for_the_one_object(stocked: Netctl) -> None:
    stocked.master.inspected["globals", "global"] = {"Config": SETTINGS}
    assert '"vxlans": "1-10000"' in stocked("global", "inspect").out


@pytest.mark.parametrize("verb", ["info", "inspect"])
def test_reading_takes_no_words(verb: str, stocked: Netctl) -> None:
    done = stocked("global", verb, "extra")
    assert (done.code, done.message) == (1, '"More arguments than required"')


def test_set_changes_what_is_given_and_keeps_the_rest(stocked: Netctl) -> None:
    done = stocked("global", "set", "-v", "1-10", "ignored")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert stocked.master.written == [("globals", "global", SETTINGS | {"vlans": "1-10"})]


def test_set_knows_every_setting(stocked: Netctl) -> None:
    words = "-f aci -v 1-2 -x 3-4 -b bridge -a flood -s 172.20.0.0/16"
    stocked("global", "set", *words.split())
    [(_, _, body)] = stocked.master.written
    assert body == {
        "key": "global",
        "name": "global",
        "networkInfraType": "aci",
        "vlans": "1-2",
        "vxlans": "3-4",
        "fwdMode": "bridge",
        "arpMode": "flood",
        "pvtSubnet": "172.20.0.0/16",
    }


def test_set_keeps_a_private_subnet_that_is_not_the_default(stocked: Netctl) -> None:
    stocked("global", "set")
    assert stocked.master.written == [("globals", "global", SETTINGS)]
