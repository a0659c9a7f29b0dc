"""The host's end of a pod's link is set down, or deleted: it is mended, or it is said."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.bed.cluster import NO_AUDITS, Bed
from tests.bed.pods import Pod
from tests.bed.waiting import WITHIN, eventually
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("no_pods_left")]


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {"netplugin": NO_AUDITS}


@pytest.fixture
def pods(bed: Bed) -> tuple[Pod, Pod]:
    host = bed.hosts[0]
    first, second = bed.add_pod(host, "first"), bed.add_pod(host, "second")
    eventually(lambda: first.ping(second.address), "the pods reach each other")
    return first, second


def link_of(bed: Bed, pod: Pod) -> str:
    """Return the host's end of a pod's link."""
    (inside,) = json.loads(pod.namespace.run(["ip", "-j", "link", "show", "eth0"]).stdout)
    links = json.loads(bed.hosts[0].namespace.run(["ip", "-j", "link"]).stdout)
    (name,) = [one["ifname"] for one in links if one["ifindex"] == inside["link_index"]]
    return str(name)


def is_up(bed: Bed, link: str) -> bool:
    out = bed.hosts[0].namespace.run(["ip", "-j", "link", "show", link]).stdout
    return "UP" in json.loads(out)[0]["flags"]


def errors(bed: Bed) -> list[str]:
    found: list[str] = ask(bed, "GET", f"/hosts/{bed.hosts[0].label}").json()["errors"]
    return found


def selftest(bed: Bed) -> tuple[bool, str]:
    answer: dict[str, Any] = ask(bed, "GET", "/api/v2/selftest", timeout=WITHIN).json()
    return answer["passed"], json.dumps(answer)


def test_a_link_that_is_set_down_is_set_up_again(bed: Bed, pods: tuple[Pod, Pod]) -> None:
    first, second = pods
    link = link_of(bed, first)
    bed.hosts[0].namespace.run(["ip", "link", "set", link, "down"])
    eventually(lambda: is_up(bed, link), "the link is up")
    eventually(lambda: first.ping(second.address), "the pods reach each other")
    assert errors(bed) == []


def test_a_link_that_is_deleted_is_said_until_its_pod_is(bed: Bed, pods: tuple[Pod, Pod]) -> None:
    first, _ = pods
    link = link_of(bed, first)
    bed.hosts[0].namespace.run(["ip", "link", "del", link])
    eventually(lambda: f"link {link} of pod" in "".join(errors(bed)), "it is said")
    passed, text = selftest(bed)
    assert not passed
    assert f"link {link} of pod" in text
    bed.delete_pod(first)
    eventually(lambda: errors(bed) == [], "nothing is amiss any more")
    eventually(lambda: selftest(bed)[0], "the selftest passes")
