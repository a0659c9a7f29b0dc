"""kube-proxy's answers for the rows of `tests.system.test_service_table`, and its rules, recorded.

Run by `make kube-proxy-answers KUBE_PROXY=<program>`, not by `make test`: it writes
`kube_proxy.json`, which the table is compared with, and `kube_proxy_rules.json`, which agents run
beside (`tests.system.proxies`). Two hosts run a real kube-proxy (iptables mode) beside the API
server of the test bed, on the plainest network of pods: each pod has a link to its host, hosts have
routes to each other's pods, and what leaves the cluster is masqueraded.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.hosts import UNDERLAY, Fabric
from tests.bed.kubernetes import ApiServer, endpoint_slice
from tests.bed.netns import Namespace, fresh_name, tx_checksum_off
from tests.bed.waiting import eventually
from tests.system import proxies
from tests.system.echoes import reaches
from tests.system.proxies import DISCOVERY, RECORDED, SETTINGS, Served, Settings
from tests.system.service_ways import EXTERNAL, KINDS, READY, body, rows, targets, unanswered

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ANSWERS = Path(__file__).with_name("kube_proxy.json")
PROGRAM = os.environ.get("KUBE_PROXY", "kube-proxy")
API_PORT = 6443
SUBNET, SUBNET6 = "10.244", "fd00:244::/64"


@contextmanager
def namespace(name: str) -> Iterator[Namespace]:
    made = Namespace(fresh_name(name)).create()
    try:
        yield made
    finally:
        made.delete()


@pytest.fixture
def fabric() -> Iterator[Fabric]:
    """Run the network between the hosts, which is the outside as well."""
    made = Fabric(fresh_name("fabric")).start()
    made.namespace.run(["ip", "route", "add", f"{EXTERNAL}/32", "via", f"{UNDERLAY}.1"])
    made.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    yield made
    made.stop()


@pytest.fixture
def hosts(fabric: Fabric) -> Iterator[list[Namespace]]:
    """Run two hosts, each with a subnet of pods."""
    with ExitStack() as stack:
        made = [stack.enter_context(namespace(f"h{number}")) for number in (1, 2)]
        for number, host in enumerate(made, start=1):
            fabric.join(host, f"u{number}")
            host.run(["ip", "address", "add", f"{UNDERLAY}.{number}/24", "dev", "eth0"])
            host.run(["ip", "route", "add", "default", "via", fabric.address])
            other = 3 - number
            to_pods = [f"{SUBNET}.{other}.0/24", "via", f"{UNDERLAY}.{other}"]
            host.run(["ip", "route", "add", *to_pods])
            host.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
            leaving = ["-s", f"{SUBNET}.0.0/16", "!", "-d", f"{SUBNET}.0.0/16"]
            host.run(["iptables", "-t", "nat", "-A", "POSTROUTING", *leaving, "-j", "MASQUERADE"])
        yield made


@contextmanager
def pod(host: Namespace, name: str, address: str) -> Iterator[Namespace]:
    """Run a pod, linked to its host."""
    gateway = f"{address.rpartition('.')[0]}.1"
    with namespace(name) as made:
        host.run(["ip", "link", "add", name, "type", "veth", "peer", "eth0", "netns", made.name])
        host.run(["ip", "address", "add", f"{gateway}/32", "dev", name])
        host.run(["ip", "link", "set", name, "up"])
        host.run(["ip", "route", "add", f"{address}/32", "dev", name])
        made.run(["ip", "address", "add", f"{address}/32", "dev", "eth0"])
        made.run(["ip", "link", "set", "eth0", "up"])
        made.run(["ip", "route", "add", gateway, "dev", "eth0"])
        made.run(["ip", "route", "add", "default", "via", gateway])
        tx_checksum_off(made, "eth0")
        yield made


def test_kube_proxys_answers_are_recorded(fabric: Fabric, hosts: list[Namespace]) -> None:
    one, two = hosts
    answers: dict[str, dict[str, dict[str, str]]] = {}
    with ExitStack() as stack:
        api = stack.enter_context(ApiServer(fabric.address, API_PORT, namespace=fabric.namespace))
        api.served.add(f"apis/{DISCOVERY}")
        pods = {
            name: stack.enter_context(pod(host, name, f"{SUBNET}.{last}"))
            for name, host, last in (
                ("provider", one, "1.2"),
                ("near", one, "1.3"),
                ("far", two, "2.2"),
            )
        }
        for number, host in enumerate(hosts, start=1):
            settings = Settings((f"{SUBNET}.0.0/16", SUBNET6))
            stack.enter_context(proxies.running(PROGRAM, host, f"h{number}", api, settings))
        eventually(partial(reaches, pods["far"], f"{SUBNET}.1.2"), "pods reach each other")
        clients = {**pods, "host": one, "other host": two, "outside": fabric.namespace}
        places = {
            "pod": (pods["provider"], f"{SUBNET}.1.2"),
            "host": (one, f"{UNDERLAY}.1"),
            "outside": (fabric.namespace, fabric.address),
        }
        for kind in KINDS:
            inside, address = places[kind]
            asked = rows(clients, f"{UNDERLAY}.1", f"{UNDERLAY}.2", kind)
            asked = {row: where for row, where in asked.items() if "hostPort" not in row.way}
            with targets(inside, address):
                _tell(api, address)
                for host in hosts:
                    eventually(partial(_leads_to, host, address), kind, within=120)
                silent = unanswered(asked)
            answers[kind] = {}
            for row in asked:
                answers[kind].setdefault(row.client, {})[row.way] = silent.get(row, "")
    ANSWERS.write_text(json.dumps({"by": _version(), "unanswered": answers}, indent=2) + "\n")


def test_kube_proxys_rules_are_recorded(fabric: Fabric, hosts: list[Namespace]) -> None:
    rules: dict[str, dict[str, dict[str, dict[str, list[str]]]]] = {}
    with ApiServer(fabric.address, API_PORT, namespace=fabric.namespace) as api:
        api.served.add(f"apis/{DISCOVERY}")
        for version, target in ((4, f"{SUBNET}.1.2"), (6, "fd00:244::2")):
            of_family = rules.setdefault(f"IPv{version}", {})
            served = Served(version, target, "h1")
            proxies.tell(api, served)
            for name, settings in SETTINGS.items():
                kept = of_family.setdefault(name, {})
                for label, host in zip(("h1", "h2"), hosts, strict=True):
                    with proxies.running(PROGRAM, host, label, api, settings):
                        made = partial(proxies.leads_to, host, served)
                        eventually(made, "kube-proxy's rules", within=120)
                        where = "here" if label == "h1" else "elsewhere"
                        kept[where] = proxies.rules(host, served, settings)
                if not settings.cidrs:
                    assert _unordered(kept) == _unordered(of_family["plain"])
            del of_family["bit"]  # another mark makes no other rules
            proxies.untell(api)
    RECORDED.write_text(json.dumps({"by": _version(), "rules": rules}, indent=1) + "\n")


def _unordered(rules: dict[str, dict[str, list[str]]]) -> object:
    """Leave out in which order the services are."""
    return {where: {table: sorted(r) for table, r in of.items()} for where, of in rules.items()}


def _version() -> str:
    said = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True)
    return f"{said.stdout.strip()}, iptables mode"


def _tell(api: ApiServer, address: str) -> None:
    slice_ = endpoint_slice("web", address, ports=READY)
    api.put(SLICES, "shop", "web-a", kind="EndpointSlice", apiVersion=DISCOVERY, **slice_)
    api.put(SERVICES, "shop", "web", kind="Service", apiVersion="v1", **body())


def _leads_to(host: Namespace, address: str) -> bool:
    shown = host.run(["iptables-save", "-t", "nat"]).stdout
    return shown.count(f"--to-destination {address}:") == len(READY)
