"""Which of upstream's tests `make conformance` runs, and how it reads both forms of its reports."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.e2e import verdicts
from tests.e2e.programs import Family, Version
from tests.e2e.verdicts import Choice, Verdict

FIRST, NOW = Choice(Version(1, 20)), Choice(Version(1, 36))
TESTS = Path("/b/e2e.test")
CLUSTER_IP = "[sig-network] Services should serve a basic endpoint from pods  [Conformance]"
AFFINITY = (
    "[sig-network] Services should have session affinity work for LoadBalancer service with "
    "ESIPP on [Slow] [DisabledForLargeClusters] [LinuxOnly]"
)
DENY = (
    "[sig-network] NetworkPolicy [LinuxOnly] NetworkPolicy between server and client should "
    "support a 'default-deny-ingress' policy [Feature:NetworkPolicy]"
)
BOTH = (
    "[sig-network] [Feature:IPv6DualStackAlphaFeature] [LinuxOnly] should have ipv4 and ipv6 "
    "internal node ip"
)
SLICES = (
    "[sig-network] EndpointSlice should have Endpoints and EndpointSlices pointing to API Server"
)
VOLUME = "[sig-storage] PersistentVolumes test phase transition timestamp [Conformance]"

LEFT = "<skipped></skipped>"
VERSION_1 = (
    f"""<?xml version="1.0" encoding="UTF-8"?>
  <testsuite name="Kubernetes e2e suite" tests="4" failures="1" errors="0" time="61.5">
      <testcase name="{VOLUME}" classname="x">{LEFT}</testcase>
      <testcase name="{CLUSTER_IP}" classname="x" time="21.5"></testcase>
      <testcase name="{DENY}" classname="x" time="40">
          <failure type="Failure">/src/test/e2e/network/network_policy.go:80
Nov 26 09:58:44.104: Pod client-can-connect-80 should be able to connect
/src/test/e2e/network/network_policy.go:1957</failure>
          <system-out>much</system-out>
      </testcase>
      <testcase name="{AFFINITY}" classname="x">{LEFT}</testcase>
      <testcase name="{SLICES}" classname="x">{LEFT}</testcase>
  </testsuite>""",
    f"""<?xml version="1.0" encoding="UTF-8"?>
  <testsuite name="Kubernetes e2e suite" tests="1" failures="0" errors="0" time="3">
      <testcase name="{CLUSTER_IP}" classname="x">{LEFT}</testcase>
      <testcase name="{SLICES}" classname="x" time="3"></testcase>
  </testsuite>""",
)
VERSION_2 = (
    f"""<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" disabled="3" errors="0" failures="1" time="61.5">
  <testsuite name="Kubernetes e2e suite" tests="5" skipped="3" errors="0" failures="1" time="61.5">
    <testcase name="[SynchronizedBeforeSuite]" classname="x" status="passed" time="1"></testcase>
    <testcase name="[It] {CLUSTER_IP}" classname="x" status="passed" time="21.5"></testcase>
    <testcase name="[It] {DENY}" classname="x" status="failed" time="40">
      <failure message="Pod client should connect&#xA;and more" type="failed">place</failure>
    </testcase>
    <testcase name="[It] {AFFINITY}" classname="x" status="skipped" time="0">
      <skipped message="skipped"></skipped>
    </testcase>
    <testcase name="[It] {SLICES}" classname="x" status="skipped" time="0">
      <skipped message="skipped - The cluster has one node"></skipped>
    </testcase>
    <testcase name="[It] {VOLUME}" classname="x" status="skipped" time="0">
      <skipped message="skipped"></skipped>
    </testcase>
  </testsuite>
</testsuites>""",
)


def runs(choice: Choice, name: str) -> bool:
    """As the runner decides it, by its two flags."""
    return bool(re.search(choice.focus, name)) and not re.search(choice.skip, name)


def test_what_is_run() -> None:
    for name in (CLUSTER_IP, DENY, SLICES):
        assert runs(FIRST, name), name
    for name in (AFFINITY, VOLUME, BOTH):
        assert not runs(FIRST, name), name
    assert runs(Choice(Version(1, 20), family=Family.DUAL), BOTH)


def test_some_of_what_is_run() -> None:
    some = Choice(Version(1, 20), only="basic endpoint|affinity|time")
    assert [name for name in (CLUSTER_IP, DENY, AFFINITY, VOLUME) if runs(some, name)] == [
        CLUSTER_IP
    ]
    found = verdicts.read(some, VERSION_2)
    assert {one.name for one in found if one.state != "skipped"} == {CLUSTER_IP, DENY}


@pytest.mark.parametrize(
    "name",
    [
        "Ingress API should support creating Ingress API operations [Conformance]",
        "IngressClass API  should support creating IngressClass API operations [Conformance]",
        (
            "NetworkPolicy [LinuxOnly] NetworkPolicy between server and client should work with "
            "Ingress,Egress specified together [Feature:NetworkPolicy]"
        ),
    ],
)
def test_no_policy_or_object_is_taken_for_a_clouds(name: str) -> None:
    assert runs(FIRST, f"[sig-network] {name}")
    assert not runs(FIRST, "[sig-network] Services should work [Feature:Ingress]")


def test_a_long_reason_is_cut() -> None:
    report = f'<testcase name="{CLUSTER_IP}"><failure>{"x" * 5000}</failure></testcase>'
    assert verdicts.read(FIRST, [report]) == [Verdict(CLUSTER_IP, "failed", "x" * 200)]


def test_reports_of_version_1_one_of_each_process() -> None:
    found = verdicts.read(FIRST, VERSION_1)
    assert found == sorted(
        [
            Verdict(CLUSTER_IP, "passed"),
            Verdict(SLICES, "passed"),
            Verdict(DENY, "failed", "Pod client-can-connect-80 should be able to connect"),
            Verdict(AFFINITY, "skipped", "needs a cloud's load balancers"),
        ]
    )
    assert verdicts.read(FIRST, reversed(VERSION_1)) == found


def test_a_report_of_version_2() -> None:
    assert verdicts.read(NOW, VERSION_2) == sorted(
        [
            Verdict(CLUSTER_IP, "passed"),
            Verdict(DENY, "failed", "Pod client should connect"),
            Verdict(AFFINITY, "skipped", "needs a cloud's load balancers"),
            Verdict(SLICES, "skipped", "The cluster has one node"),
        ]
    )


def test_what_failed_before_the_tests_is_a_failure() -> None:
    report = (
        '<testsuite><testcase name="BeforeSuite"><failure type="Failure">/src/e2e.go:76\n'
        "no nodes are ready\n/src/e2e.go:90</failure></testcase></testsuite>"
    )
    found = verdicts.read(FIRST, [report])
    assert found == [Verdict("BeforeSuite", "failed", "no nodes are ready")]
    assert not verdicts.good(found)


def test_nothing_run_is_not_good() -> None:
    assert not verdicts.good([])
    assert not verdicts.good([Verdict(SLICES, "skipped", "why")])
    assert verdicts.good([Verdict(SLICES, "skipped", "why"), Verdict(CLUSTER_IP, "passed")])


def test_a_report_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(ET.ParseError):
        verdicts.read(FIRST, [VERSION_1[0][:400]])


def test_people_read_failures_skips_with_reasons_and_numbers() -> None:
    text = verdicts.told(verdicts.read(FIRST, VERSION_1)).splitlines()
    assert text == [
        f"FAILED {DENY}",
        "       Pod client-can-connect-80 should be able to connect",
        "skipped, needs a cloud's load balancers:",
        f"       {AFFINITY}",
        "2 passed (1 of them [Conformance]), 1 failed, 1 skipped",
    ]


@pytest.mark.parametrize(
    ("choice", "ginkgo", "words"),
    [
        (FIRST, None, ["--ginkgo.noColor=true"]),
        (NOW, None, ["--ginkgo.no-color=true", "--ginkgo.timeout=12h"]),
        (FIRST, Path("/b/ginkgo"), ["--nodes=4", "--keepGoing=true", "--noColor=true"]),
        (NOW, Path("/b/ginkgo"), ["--procs=4", "--keep-going=true", "--no-color=true"]),
    ],
)
def test_each_runner_gets_its_own_flags(
    choice: Choice, ginkgo: Path | None, words: list[str]
) -> None:
    said = verdicts.command(choice, TESTS, ginkgo, 4)
    assert set(words) <= set(said), said
    assert said[0] == str(ginkgo or TESTS)
    # what follows are e2e.test's own flags
    assert said[-2:] == [str(TESTS), "--"] if ginkgo else said[-1].startswith("--ginkgo.")
    prefix = "--" if ginkgo else "--ginkgo."
    assert f"{prefix}focus={verdicts.FOCUS}" in said
    assert f"{prefix}skip={choice.skip}" in said
