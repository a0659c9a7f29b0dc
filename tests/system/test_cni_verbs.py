"""CHECK, GC, STATUS and several interfaces of a pod, by the plugin and a real agent.

A chain with the plugins `portmap` and `bandwidth` of the CNI project runs as libcni runs it.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bed.cluster import Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Sandbox, new_sandbox
from tests.bed.traffic import round_trip
from tests.bed.waiting import WITHIN, eventually
from tests.system.footprint import eventually_same, steady

pytestmark = [pytest.mark.system]

PLUGINS = Path("/usr/lib/cni")
"""Where Debian's package containernetworking-plugins has them."""


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


class Answer(NamedTuple):
    """What a runtime sees of a call."""

    status: int
    json: dict[str, Any]

    @property
    def failure(self) -> tuple[int, str]:
        """The error's code and details."""
        return int(self.json["code"]), str(self.json["details"])


class Plugin:
    """Calls the plugin for one sandbox, in one version, and remembers the result of each ADD."""

    def __init__(self, bed: Bed, sandbox: Sandbox, version: str = "1.1.0") -> None:
        self._bed = bed
        self._sandbox = sandbox
        self._version = version
        self._added: dict[str, dict[str, Any]] = {}

    def conf(self, **place: str) -> dict[str, Any]:
        conf = self._bed.conf(self._bed.hosts[0], **place)
        return conf | {"cniVersion": self._version}

    def call(self, verb: str, ifname: str = "eth0", /, **conf: Any) -> Answer:
        done = self._bed.runtime.call(
            verb,
            self._bed.hosts[0],
            self.conf() | conf,
            self._sandbox,
            netns=str(self._sandbox.namespace.path),
            ifname=ifname,
        )
        answer = Answer(done.returncode, json.loads(done.stdout) if done.stdout else {})
        if verb == "ADD" and not answer.status:
            self._added[ifname] = answer.json
        return answer

    def check(self, ifname: str = "eth0", **conf: Any) -> Answer:
        return self.call("CHECK", ifname, prevResult=self._added[ifname], **conf)

    def collect(self, *keep: str) -> Answer:
        listed = [{"containerID": self._sandbox.container_id, "ifname": one} for one in keep]
        return self.call("GC", **{"cni.dev/valid-attachments": listed})


@pytest.fixture
def sandbox(bed: Bed) -> Iterator[Sandbox]:
    """Make a pod's sandbox; see that nothing is left of it."""
    before = steady(bed)
    sandbox = new_sandbox("p", Namespace(fresh_name("p")))
    yield sandbox
    plugin = Plugin(bed, sandbox)
    for ifname in ("eth0", "net1", "net2"):
        assert plugin.call("DEL", ifname).status == 0
    sandbox.namespace.delete()
    eventually_same(bed, before)


def test_status(bed: Bed, sandbox: Sandbox) -> None:
    plugin = Plugin(bed, sandbox)
    assert plugin.call("STATUS") == (0, {})
    bed.netmaster.kill()
    try:
        eventually(lambda: plugin.call("STATUS").status, "no netmaster leads")
        assert plugin.call("STATUS").failure[0] == 50
    finally:
        bed.netmaster.start()
    eventually(lambda: plugin.call("STATUS").status == 0, "a netmaster leads")


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0"])
def test_check(bed: Bed, sandbox: Sandbox, version: str) -> None:
    plugin, pod, host = Plugin(bed, sandbox, version), sandbox.namespace, bed.hosts[0]
    result = plugin.call("ADD").json
    assert plugin.check() == (0, {})
    assert plugin.call("CHECK").failure[0] == 7  # without the result of the ADD

    pod.run(["ip", "addr", "del", result["ips"][0]["address"], "dev", "eth0"])
    pod.run(["ip", "link", "set", "eth0", "address", "02:aa:00:00:00:01"])
    code, details = plugin.check().failure
    assert code == 103
    assert f"link eth0 has no address {result['ips'][0]['address']}" in details
    assert "link eth0 has MAC address 02:aa:00:00:00:01" in details
    assert "link eth0 has no default route by 10.20.0.1" in details

    host.namespace.run(["ip", "link", "delete", result["interfaces"][0]["name"]])
    assert f"link {result['interfaces'][0]['name']} is missing" in plugin.check().failure[1]


def test_a_version_without_the_verb(bed: Bed, sandbox: Sandbox) -> None:
    old = Plugin(bed, sandbox, "0.3.1")
    assert [old.call(verb).json["code"] for verb in ("CHECK", "GC", "STATUS")] == [1, 1, 1]


def test_interfaces_in_networks_of_two_tenants(bed: Bed, sandbox: Sandbox) -> None:
    """Both networks have the same addresses; the second one is collected alone."""
    bed.netctl("tenant", "create", "blue")
    bed.netctl("net", "create", "--tenant=blue", "--subnet=10.20.0.0/16", "blue-net")
    plugin = Plugin(bed, sandbox)
    blue = plugin.conf(tenant="blue", network="blue-net")
    other = Plugin(bed, new_sandbox("q", Namespace(fresh_name("q"))))
    try:
        first = plugin.call("ADD").json
        second = plugin.call("ADD", "net1", **blue).json
        assert plugin.call("ADD", "net1", **blue).json == second
        assert [one["name"] for one in second["interfaces"]][1] == "net1"
        assert (len(first["routes"]), second["routes"]) == (1, [])
        assert plugin.check() == plugin.check("net1", **blue) == (0, {})

        assert plugin.collect("eth0", "net1") == (0, {})
        assert plugin.check("net1", **blue) == (0, {})
        collected(plugin, "net1", blue)
        assert plugin.check() == (0, {})
    finally:
        assert plugin.call("DEL", "net1", **blue).status == 0
        assert plugin.call("DEL").status == 0
        other._sandbox.namespace.delete()
        bed.netctl("net", "rm", "--tenant=blue", "blue-net")
        bed.netctl("tenant", "rm", "blue")


def collected(plugin: Plugin, ifname: str, conf: dict[str, Any]) -> None:
    """Have all but `eth0` collected; a GC leaves alone what was added a moment ago."""

    def gone() -> bool:
        assert plugin.collect("eth0") == (0, {})
        answer = plugin.check(ifname, **conf)
        return bool(answer.status) and "no such interface" in answer.failure[1]

    assert not gone()
    eventually(gone, f"{ifname} is collected")


def test_addresses_that_are_asked_for(bed: Bed, sandbox: Sandbox) -> None:
    asked = {"ips": ["10.20.7.7/16"], "mac": "02:aa:00:00:00:07"}
    dns = {"nameservers": ["10.20.0.53"], "search": ["example.org"]}
    plugin = Plugin(bed, sandbox)
    result = plugin.call("ADD", runtimeConfig=asked, dns=dns).json
    assert result["ips"][0]["address"] == "10.20.7.7/16"
    assert result["interfaces"][1]["mac"] == asked["mac"]
    assert result["dns"] == dns
    assert plugin.check(runtimeConfig=asked) == (0, {})
    other = bed.add_pod(bed.hosts[0], "other")
    try:
        eventually(lambda: other.ping("10.20.7.7"), "the other pod reaches it")
        back = partial(round_trip, sandbox.namespace, other.address)
        eventually(back, "it reaches the other pod")
    finally:
        bed.delete_pod(other)
    code, details = plugin.call("ADD", "net1", runtimeConfig={"ips": ["10.20.7.7"]}).failure
    assert (code, details) == (
        100,
        "Err: ip address 10.20.7.7 is not available: container p on host h1 has it",
    )
    code, details = plugin.call("ADD", "net1", runtimeConfig={"mac": asked["mac"]}).failure
    assert (code, details) == (100, f"Err: MAC address {asked['mac']} is in use")


def test_addresses_that_the_environment_asks_for(bed: Bed, sandbox: Sandbox) -> None:
    address, mac = "10.20.7.9", "02:aa:00:00:00:09"
    asking = replace(sandbox, asked=(f"IP={address}", f"MAC={mac}"))
    plugin = Plugin(bed, asking)
    result = plugin.call("ADD").json
    assert result["ips"][0]["address"] == f"{address}/16"
    assert result["interfaces"][1]["mac"] == mac
    assert plugin.check() == (0, {})
    code, details = plugin.call("ADD", "net1").failure
    held = f"Err: ip address {address} is not available: "
    assert code == 100
    assert details.startswith(held)
    assert details.endswith(f" on host {bed.hosts[0].label} has it")


def test_limits_that_are_asked_for(bed: Bed, sandbox: Sandbox) -> None:
    rates = {"egressRate": 20_000_000, "egressBurst": 1_000_000}
    rates |= {"ingressRate": 10_000_000, "ingressBurst": 800_000}
    plugin, host = Plugin(bed, sandbox), bed.hosts[0]
    asked = {"runtimeConfig": {"bandwidth": rates}}
    result = plugin.call("ADD", **asked).json
    link = result["interfaces"][0]["name"]
    columns = ["ingress_policing_rate", "ingress_policing_burst"]
    assert host.ovs.vsctl("get", "interface", link, *columns).split() == ["20000", "1000"]
    bucket = host.namespace.run(["tc", "qdisc", "show", "dev", link]).stdout
    assert "tbf" in bucket
    assert "rate 10Mbit burst 100000b" in " ".join(bucket.split())
    assert plugin.call("ADD", **asked).json == result
    # the first plugin of a list gets no result of another one
    assert plugin.call("ADD", "net1", prevResult=result).failure[0] == 7


class Chain:
    """Runs a list of plugins as libcni does: results are passed on, DEL goes backwards."""

    def __init__(self, bed: Bed, sandbox: Sandbox, **others: dict[str, Any]) -> None:
        self._bed = bed
        self._sandbox = sandbox
        ours = bed.conf(bed.hosts[0]) | {"cniVersion": "1.0.0"}
        self.plugins: list[tuple[Path, dict[str, Any]]] = [
            (bed.runtime.plugin, ours),
            *((PLUGINS / name, own) for name, own in others.items()),
        ]

    def run(
        self, verb: str, result: dict[str, Any] | None = None, *, without: str = ""
    ) -> dict[str, Any] | None:
        host = self._bed.hosts[0]
        backwards = -1 if verb == "DEL" else 1
        for plugin, own in self.plugins[::backwards]:
            if plugin.name == without:
                continue
            conf = {"cniVersion": "1.0.0", "name": "contiv-net", "type": plugin.name, **own}
            env = self._bed.runtime.environment(
                verb, self._sandbox, netns=str(self._sandbox.namespace.path)
            )
            done = subprocess.run(
                [*host.namespace.enter, str(plugin)],
                input=json.dumps(conf if result is None else conf | {"prevResult": result}),
                env=env | {"CNI_PATH": f"{PLUGINS}{os.pathsep}{env['CNI_PATH']}"},
                check=False,
                capture_output=True,
                text=True,
                timeout=WITHIN,
            )
            assert done.returncode == 0, f"{plugin.name} {verb}: {done.stdout}{done.stderr}"
            result = json.loads(done.stdout) if verb == "ADD" else result
        return result


@pytest.mark.skipif(not (PLUGINS / "bandwidth").exists(), reason="no CNI plugins installed")
def test_a_chain_with_portmap_and_bandwidth(bed: Bed, sandbox: Sandbox) -> None:
    mapping = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}
    rate = {"ingressRate": 1_000_000, "ingressBurst": 100_000}
    rate |= {"egressRate": 1_000_000, "egressBurst": 100_000}
    chain, host = (
        Chain(
            bed,
            sandbox,
            portmap={"runtimeConfig": {"portMappings": [mapping]}},
            bandwidth={"runtimeConfig": {"bandwidth": rate}},
        ),
        bed.hosts[0].namespace,
    )
    result = chain.run("ADD")
    assert result is not None
    link = result["interfaces"][0]["name"]
    assert "tbf" in host.run(["tc", "qdisc", "show", "dev", link]).stdout
    assert "8080" in host.run(["iptables-save", "-t", "nat"]).stdout
    # portmap 1.1.1 looks for rules of IPv6 in its CHECK, also where the pod has no such address.
    chain.run("CHECK", result, without="portmap")
    chain.run("DEL", result)
    chain.run("DEL", result)
    assert "8080" not in host.run(["iptables-save", "-t", "nat"]).stdout


@pytest.mark.skipif(not (PLUGINS / "sbr").exists(), reason="no CNI plugins installed")
def test_a_later_plugin_may_move_the_routes(bed: Bed, sandbox: Sandbox) -> None:
    """The plugin sbr moves them to a table of its own; what it has lost is still named."""
    chain = Chain(bed, sandbox, sbr={})
    result = chain.run("ADD")
    pod = sandbox.namespace
    assert not pod.run(["ip", "route", "show", "default"]).stdout
    chain.run("CHECK", result, without="sbr")
    pod.run(["ip", "route", "flush", "table", "100"])
    plugin = Plugin(bed, sandbox, "1.0.0")
    code, details = plugin.call("CHECK", prevResult=result).failure
    assert code == 103
    assert "link eth0 has no default route by 10.20.0.1" in details
    # a later plugin that replaced the routes says so in the result
    assert plugin.call("CHECK", prevResult={**(result or {}), "routes": []}) == (0, {})


@pytest.mark.skipif(not (PLUGINS / "tuning").exists(), reason="no CNI plugins installed")
def test_a_later_plugin_that_changes_the_mac_cuts_the_pod_off(bed: Bed, sandbox: Sandbox) -> None:
    chain = Chain(bed, sandbox, tuning={"mac": "02:aa:00:00:00:07"})
    result = chain.run("ADD")
    code, details = Plugin(bed, sandbox, "1.0.0").call("CHECK", prevResult=result).failure
    assert code == 103
    assert "link eth0 has MAC address 02:aa:00:00:00:07" in details
    assert "drops what it sends; ask for another one by capability mac" in details


def test_a_gc_of_a_network_without_pods(bed: Bed, sandbox: Sandbox) -> None:
    """What ocicni sends then is null, and older texts of the specification have another key."""
    plugin = Plugin(bed, sandbox)
    lists: tuple[dict[str, Any], ...] = (
        {"cni.dev/valid-attachments": None},
        {"cni.dev/attachments": []},
        {"cni.dev/valid-attachments": None, "cni.dev/attachments": None},
    )
    for listed in lists:
        assert plugin.call("GC", **listed) == (0, {})
    assert plugin.call("GC").failure[0] == 7
