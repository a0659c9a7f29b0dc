"""`netctl capture`."""

import pytest

from tests.unit.netctl.master import Netctl


def test_packets_come_out_as_they_are(netctl: Netctl) -> None:
    netctl.master.parts = [b"one", b"two"]
    done = netctl("capture", "c1", "-s", "3", "-c", "5", "-f", "tcp port 80")
    assert done.out == "onetwo"
    assert netctl.master.asked == [
        *(("endpoint", "c1"), ("seconds", "3"), ("count", "5"), ("snaplen", "65535")),
        ("filter", "tcp port 80"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], '"Endpoint name required"'),
        (["c1", "--seconds", "0"], '"--seconds must be positive"'),
        (["c1", "--count=-1"], '"--count must be positive"'),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str, netctl: Netctl) -> None:
    done = netctl("capture", *words)
    assert (done.code, done.message) == (1, message)
    assert netctl.master.asked == []


def test_a_refusal_is_shown(netctl: Netctl) -> None:
    netctl.master.refusal = "Access denied!"
    done = netctl("capture", "c1")
    assert (done.code, done.message) == (3, '"Access denied!"')
