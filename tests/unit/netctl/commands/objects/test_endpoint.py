"""`netctl endpoint`."""

import pytest

from tests.unit.netctl.master import Netctl


@pytest.mark.parametrize("name", ["endpoint", "ep"])
def test_inspect_prints_all_but_the_echoed_id(name: str, netctl: Netctl) -> None:
    netctl.master.inspected["endpoints", "ep1"] = {
        "Oper": {"key": "ep1", "ipAddress": ["10.1.1.1", ""]}
    }
    done = netctl(name, "inspect", "ep1")
    assert done.out == (
        '{\n  "Oper": {\n    "ipAddress": [\n      "10.1.1.1",\n      ""\n    ]\n  }\n}\n'
    )


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_one_id_is_required(words: list[str], netctl: Netctl) -> None:
    done = netctl("endpoint", "inspect", *words)
    assert (done.code, done.message) == (1, '"Endpoint name required"')


FOUND = {
    "key": "n1.default-ep1",
    "tenant": "default",
    "network": "n1",
    "group": "web",
    "host": "h1",
    "addresses": ["10.1.1.1", "fd00::1"],
    "mac": "02:02:0a:01:01:01",
    "container": "0123456789abcdef",
    "containerName": "web-1",
    "labels": {"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": "web-1"},
}


def test_a_list_shows_where_endpoints_are(netctl: Netctl) -> None:
    netctl.master.found = [FOUND]
    done = netctl("endpoint", "ls")
    assert done.out.splitlines()[2].split() == [
        *("default", "n1", "web", "h1", "10.1.1.1,fd00::1", "02:02:0a:01:01:01"),
        *("0123456789ab", "shop/web-1"),
    ]
    assert netctl("endpoint", "ls", "-q").out == "n1.default-ep1\n"
    assert netctl.master.asked == [("tenant", "default")]


@pytest.mark.parametrize(
    ("pod", "shown"),
    [
        *(("web-1", 1), ("web-*", 1), ("shop/*", 1), ("shop/web-1", 1), ("hop/web-1", 0)),
        *(("web", 0), ("blog/web-1", 0), ("left", 1), ("l*", 1), ("*", 2)),
    ],
)
def test_a_list_is_of_pods_of_a_name(netctl: Netctl, pod: str, shown: int) -> None:
    netctl.master.found = [FOUND, {**FOUND, "labels": {}, "containerName": "left"}]
    assert netctl("endpoint", "ls", "-q", "--pod", pod).out.count("\n") == shown


def test_a_wide_list_has_labels(netctl: Netctl) -> None:
    netctl.master.found = [{**FOUND, "labels": {"app": "web"}}]
    assert " app=web " in netctl("endpoint", "ls", "-o", "wide").out


def test_a_list_is_of_what_was_asked_for(netctl: Netctl) -> None:
    done = netctl("endpoint", "ls", "-a", "--host", "h1", "-l", "app=web", "-l", "tier", "-j")
    assert done.out == "[]\n"
    assert netctl.master.asked == [("host", "h1"), ("label", "app=web"), ("label", "tier")]
