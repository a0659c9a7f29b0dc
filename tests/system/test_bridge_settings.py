"""Changes of a bridge's settings by other programs, and a second agent on one Open vSwitch."""

from collections.abc import Mapping, Sequence

import pytest

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.waiting import WITHIN, eventually
from tests.system.footprint import BRIDGES, flows
from tests.system.planes import applied
from tests.system.rest import ask

pytestmark = [pytest.mark.system]

BRIDGE = BRIDGES[0]
OTHER = "tcp:127.0.0.1:1"
SECOND = "tcp:127.0.0.2:1"
CHANGES: Mapping[str, tuple[Sequence[str], str]] = {
    "no controller": (["del-controller", BRIDGE], "controllers was none"),
    "another controller": (["set-controller", BRIDGE, OTHER], f"controllers was {OTHER}, must"),
    "a second controller": (
        [
            *("--", "--id=@c", "create", "controller", f'target="{SECOND}"'),
            *("--", "add", "bridge", BRIDGE, "controller", "@c"),
        ],
        f"controllers was {SECOND}, unix:",
    ),
    "standalone without a controller": (
        ["del-controller", BRIDGE, "--", "set-fail-mode", BRIDGE, "standalone"],
        f"/{BRIDGE}.openflow; fail_mode was standalone",
    ),
    "standalone": (["set-fail-mode", BRIDGE, "standalone"], "corrected: fail_mode was standalone"),
    "another datapath id": (
        ["set", "bridge", BRIDGE, "other-config:datapath-id=00000000000000ff"],
        "datapath-id was 00000000000000ff",
    ),
    "OpenFlow 1.0 only": (
        ["set", "bridge", BRIDGE, "protocols=OpenFlow10"],
        "protocols was OpenFlow10, must",
    ),
}
"""What is changed, and what the host then reports."""


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough."""
    return 1


def _settings(bed: Bed) -> tuple[str, ...]:
    ovs = bed.hosts[0].ovs
    columns = ("fail_mode", "protocols", "other_config", "datapath_type")
    return (
        *(ovs.vsctl("get", "bridge", BRIDGE, column) for column in columns),
        ovs.vsctl("get-controller", BRIDGE),
    )


def _errors(bed: Bed) -> list[str]:
    errors = ask(bed, "GET", "/hosts/h1").json()["errors"]
    assert isinstance(errors, list)
    return errors


def _settled(bed: Bed) -> set[str]:
    """Return the flows of the host once it has all, those of the name service too.

    It gets the ports of that after it is ready, and then other flows.
    """
    applied(bed)
    found: set[str] = set()

    def settled() -> bool:
        before = set(found)
        found.clear()
        found.update(flows(bed.hosts[0]))
        serving = {bridge for bridge in BRIDGES for one in found if _serves_names(one, bridge)}
        return found == before and serving == set(BRIDGES)

    eventually(settled, "the host has its flows")
    return found


def _serves_names(flow: str, bridge: str) -> bool:
    """Tell whether a flow takes questions to the name service of a bridge."""
    return flow.startswith(bridge) and "bundle_load" in flow


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES)
def test_a_bridge_that_was_changed_is_corrected_and_reported(
    bed: Bed, change: Sequence[str], told: str
) -> None:
    """The finding of docs/notes/trust.md §8."""
    settings, wanted = _settings(bed), _settled(bed)
    bed.hosts[0].ovs.vsctl(*change)
    eventually(
        lambda: any(BRIDGE in error and told in error for error in _errors(bed)),
        "the host reports what was changed",
    )
    eventually(lambda: _settings(bed) == settings, "the bridge has its settings again")
    left: list[str] = []

    def restored() -> bool:
        now = set(flows(bed.hosts[0]))
        left[:] = [f"- {one}" for one in wanted - now] + [f"+ {one}" for one in now - wanted]
        return not left

    try:
        eventually(restored, "the bridge has its flows again")
    except TimeoutError as exc:
        raise AssertionError("\n".join([str(exc), *left])) from exc


def test_the_report_of_a_corrected_bridge_ends(bed: Bed) -> None:
    bed.hosts[0].ovs.vsctl("set-fail-mode", BRIDGE, "standalone")
    eventually(lambda: _errors(bed) != [], "the host reports what was changed")
    eventually(lambda: _errors(bed) == [], "the report ends")


@pytest.mark.usefixtures("line")
def test_a_bridge_without_a_session_is_reported(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §8."""
    applied(bed)
    vswitchd = bed.hosts[0].ovs.vswitchd
    vswitchd.pause()
    try:
        eventually(
            lambda: any("no OpenFlow session" in error for error in _errors(bed)),
            "the host reports that its switch does not answer",
        )
    finally:
        vswitchd.resume()
    eventually(lambda: _errors(bed) == [], "the report ends")
    applied(bed)


def test_a_second_agent_on_the_same_switch_is_refused(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §8."""
    applied(bed)
    settings = _settings(bed)
    host, agent = bed.hosts[0], bed.agents[0]
    changed = {
        "--host": "h9",
        "--run-dir": str(host.dir / "second"),
        "--data-dir": str(host.dir / "second" / "data"),
        "--cni-socket": str(host.dir / "second.sock"),
        "--rest-address": f"127.0.0.1:{AGENT_PORT + 1}",
    }
    command = list(agent.command)
    for flag, value in changed.items():
        command[command.index(flag) + 1] = value
    ports = ("vxlan-rpc", "vlan-rpc", "vxlan-openflow", "vlan-openflow")
    command += [word for port in ports for word in (f"--{port}-port", "0")]
    done = host.namespace.run(
        ["timeout", f"{WITHIN:g}", *command], check=False, env=host.ovs.environment, timeout=None
    )
    assert done.returncode == 1, done.stderr
    assert "another agent controls the Open vSwitch" in done.stderr, done.stderr
    assert "host h1" in done.stderr
    assert _settings(bed) == settings
    applied(bed)
