"""The manifests of Kubernetes: flags that exist, rights that suffice and no more, one image."""

import copy
import json
import operator
import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from core import settings_directory
from core.version import VERSION
from daemons import flags
from daemons.certificates import enrolment
from daemons.health import HEALTHZ, PATHS, READYZ
from netmaster import entry
from netmaster import settings as netmaster_settings
from netmaster.commands import default_network, kube_certificates
from netplugin import settings as netplugin_settings
from netplugin.commands import cni_files, enrol, link_files
from netplugin.kernel.firewall import iptables, nft_tables
from netplugin.kube.config import KubeConfig
from netplugin.kube.resources import NAMESPACES, NODES, POLICIES, SERVICES, SLICES, pods_of
from tests.unit.deploy.manifests import DEPLOY, INSTALLED, containers, documents, pods, the_one

FLAGS = {"NETMASTER": netmaster_settings.FLAGS, "NETPLUGIN": netplugin_settings.FLAGS}
FILES = sorted(path for path in DEPLOY.rglob("*.yaml") if path.name != "kustomization.yaml")


def test_the_image_has_what_the_agent_runs() -> None:
    """A host need not have it: it works on the host's kernel."""
    text = (DEPLOY.parents[1] / "Containerfile").read_text()
    packages = text.partition("RUN rootfs /root/netplugin ")[2].splitlines()[0].split()
    assert {iptables.PROGRAM, f"{nft_tables.PROGRAM}ables", "python3"} <= set(packages)


def test_every_file_of_network_managers_has_its_place() -> None:
    """Where the installer writes is a directory of the host, in both manifests."""
    cleanup = documents(DEPLOY / "cleanup.yaml")
    for name, objects in (("install-cni", INSTALLED), ("files", cleanup)):
        (container,) = (one for one in containers(objects) if one["name"] == name)
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted >= {str(Path("/host/run") / path.parent) for path in link_files.FILES}
        assert "--etc /host/run" in " ".join(container["command"])


def values(path: Path) -> dict[str, str]:
    """Return all variables of daemons that a file sets, with their values."""
    found: dict[str, str] = {}
    for one in documents(path):
        if one["kind"] == "ConfigMap":
            found |= one["data"]
    for container in containers(documents(path)):
        found |= {entry["name"]: entry.get("value", "") for entry in container.get("env", [])}
    found.pop(settings_directory.VARIABLE, "")
    return {name: value for name, value in found.items() if name.startswith("CONTIV_")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_variables_of_daemons_are_those_of_flags(path: Path) -> None:
    for name in values(path):
        _, daemon, rest = name.split("_", 2)
        assert rest in {flag.env for flag in FLAGS[daemon]}, name


@pytest.mark.parametrize("overlay", ["vxlan", "vlan", "your-store", "without-kube-proxy"])
def test_the_settings_of_each_overlay_are_valid(overlay: str) -> None:
    base = values(DEPLOY / "base" / "configuration.yaml") | values(
        DEPLOY / "base" / "netplugin.yaml"
    )
    for path in sorted((DEPLOY / "overlays" / overlay).glob("*.yaml")):
        if path.name != "kustomization.yaml":
            base |= values(path)
    environ = {
        name: value.replace("$(CONTIV_ETCD_SERVICE_HOST)", "192.0.2.7")
        for name, value in base.items()
    }
    environ |= dict.fromkeys(
        ("CONTIV_NETPLUGIN_CONTROL_IP", "CONTIV_NETPLUGIN_VTEP_IP"), "192.0.2.1"
    ) | {"CONTIV_NETPLUGIN_HOST": "n1"}
    read = flags.read("netplugin", netplugin_settings.FLAGS, [], environ, VERSION)
    assert read is not None
    agent = netplugin_settings.resolve(read, lambda: "192.0.2.1")
    assert agent.mode == "kubernetes"
    read = flags.read("netmaster", netmaster_settings.FLAGS, [], environ, VERSION)
    assert read is not None
    master = netmaster_settings.resolve(read, lambda: "192.0.2.1")
    assert master.address_cooldown == 30


SIX = {"HOST_IP": "fd77::1", "CONTIV_ETCD_SERVICE_HOST": "fd00:10::7"}
"""Addresses of a node and of the store's service."""


def of_ipv6() -> list[dict[str, Any]]:
    """Return the objects of the overlay `ipv6`: its patches name what they find."""
    overlay, made = DEPLOY / "overlays" / "ipv6", copy.deepcopy(INSTALLED)
    (kustomization,) = documents(overlay / "kustomization.yaml")
    (component,) = kustomization["components"]
    patch_all(overlay / component, made)
    patch_all(overlay, made)
    return made


def patch_all(folder: Path, made: list[dict[str, Any]]) -> None:
    """Change objects as the patches of a folder do."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    for patch in kustomization["patches"]:
        if "target" in patch:
            place = the_one(patch["target"]["kind"], patch["target"]["name"], made)
            patch_places(place, json.loads((folder / patch["path"]).read_text()))
            continue
        (given,) = documents(folder / patch["path"])
        place = the_one(given["kind"], given["metadata"]["name"], made)
        if "data" in given:
            place["data"] |= given["data"]
        else:
            patch_variables(place, given)


def patch_places(place: Any, changes: Sequence[dict[str, str]]) -> None:
    for change in changes:
        *way, last = (
            int(word) if word.isdecimal() else word for word in change["path"].split("/")[1:]
        )
        where: Any = reduce(operator.getitem, way, place)
        if change["op"] == "test":
            assert where[last] == change["value"], change["path"]
        else:
            where[last] = change["value"]


def patch_variables(place: dict[str, Any], given: dict[str, Any]) -> None:
    """Put a patch's variables before the others of its containers, as kustomize does."""
    known = {one["name"]: one for one in containers([place])}
    for container in containers([given]):
        there = known[container["name"]]
        named = [one["name"] for one in container["env"]]
        assert set(named) <= {one["name"] for one in there["env"]}
        there["env"] = [
            *container["env"],
            *(one for one in there["env"] if one["name"] not in named),
        ]


def test_variables_come_after_those_they_name() -> None:
    for container in containers(of_ipv6()):
        before: set[str] = set()
        for one in container.get("env", ()):
            own = set(re.findall(r"\$\((\w+)\)", one.get("value", "")))
            assert own - {"CONTIV_ETCD_SERVICE_HOST"} <= before, one
            before.add(one["name"])


def test_nodes_of_ipv6_alone_have_their_addresses_in_brackets() -> None:
    made = of_ipv6()
    text = json.dumps(made)
    assert not re.search(r"(?<!\[)\$\((HOST_IP|CONTIV_ETCD_SERVICE_HOST)\):", text)
    assert "0.0.0.0" not in text
    environ = dict(the_one("ConfigMap", "contiv", made)["data"])
    for container in containers(made):
        if container["name"] in {"netmaster", "netplugin"}:
            environ |= {one["name"]: one.get("value", "") for one in container["env"]}
    for name, address in SIX.items():
        environ = {one: value.replace(f"$({name})", address) for one, value in environ.items()}
    environ |= {
        "CONTIV_NETPLUGIN_CONTROL_IP": SIX["HOST_IP"],
        "CONTIV_NETPLUGIN_VTEP_IP": SIX["HOST_IP"],
        "CONTIV_NETPLUGIN_HOST": "n1",
    }
    read = flags.read("netmaster", netmaster_settings.FLAGS, [], environ, VERSION)
    assert read is not None
    master = netmaster_settings.resolve(read, lambda: SIX["HOST_IP"])
    assert str(master.internal) == "[fd77::1]:9999"
    read = flags.read("netplugin", netplugin_settings.FLAGS, [], environ, VERSION)
    assert read is not None
    agent = netplugin_settings.resolve(read, lambda: SIX["HOST_IP"])
    assert str(agent.store) == "etcd: https://[fd00:10::7]:6666"
    assert default_network.network_words(environ) == [
        *("network", "create", "-t", "default", "--encap", "vxlan"),
        *("--subnetv6", "fd00:20::/64", "--gatewayv6", "fd00:20::ffff:fffe", "default-net"),
    ]


def test_what_runs_starts_again_without_the_api_server() -> None:
    """Kubelet reads a ConfigMap or Secret of an environment anew; what is mounted is there."""
    for pod in pods(INSTALLED):
        for container in pod["containers"]:
            assert "envFrom" not in container, container["name"]
            for each in container.get("env", []):
                assert each.get("valueFrom", {"fieldRef": {}}).keys() == {"fieldRef"}, each
            named = {each["name"]: each.get("value") for each in container.get("env", [])}
            mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
            assert named.get(settings_directory.VARIABLE) == mounts.get("settings")


def test_the_agent_may_read_what_it_follows_and_nothing_else() -> None:
    followed = [SERVICES, *SLICES.alternatives(), NAMESPACES, NODES, pods_of("n1"), *POLICIES]
    wanted = {(one.group, one.name) for one in followed}
    given = set()
    *followed_rules, enrols = the_one("ClusterRole", "contiv-netplugin")["rules"]
    assert (enrols["resources"], enrols["verbs"]) == (
        ["certificatesigningrequests"],
        ["create", "get"],
    )
    for rule in followed_rules:
        assert rule["verbs"] == ["get", "list", "watch"]
        given |= {(group, name) for group in rule["apiGroups"] for name in rule["resources"]}
    assert given == wanted


def test_the_keys_of_the_authorities_are_read_by_nobody_else() -> None:
    for role in [each for each in INSTALLED if each["kind"] in {"Role", "ClusterRole"}]:
        for rule in role["rules"]:
            if "secrets" in rule["resources"]:
                assert role["metadata"]["name"] == "contiv-certificates"
                reads = rule["verbs"] != ["create"]
                assert rule.get("resourceNames") == (["contiv-authority"] if reads else None)


def test_only_containers_that_ask_the_api_server_have_a_token() -> None:
    for account in ("contiv", "contiv-certificates"):
        assert the_one("ServiceAccount", account)["automountServiceAccountToken"] is False
    with_token = [
        container["name"]
        for container in containers(INSTALLED)
        if any(mount["name"] == "token" for mount in container.get("volumeMounts", []))
    ]
    assert set(with_token) == {"first-certificates", "certificates"}
    assert [pod["serviceAccountName"] for pod in pods(INSTALLED)].count("contiv-netplugin") == 1


def test_a_signer_is_a_right_of_masters_alone() -> None:
    rules = the_one("ClusterRole", "contiv-certificates")["rules"]
    (signers,) = [rule for rule in rules if rule["resources"] == ["signers"]]
    assert signers["resourceNames"] == list(enrolment.SIGNERS)
    signing = [
        container["name"] for container in containers(INSTALLED) if "--sign" in container["command"]
    ]
    assert signing == ["certificates"]


def test_all_daemons_speak_tls() -> None:
    """Nobody without a certificate reaches REST, RPC or the store of what is installed."""
    environ = values(DEPLOY / "contiv.yaml")
    written = {f"/certificates/{own.directory}" for own in kube_certificates.OWN}
    written |= {f"/certificates/{directory}" for directory in enrol.DIRECTORIES.values()}
    for daemon in FLAGS:
        for name in ("TLS_CA", "TLS_CERT", "TLS_KEY", "STORE_CA", "STORE_CERT", "STORE_KEY"):
            path = environ[f"CONTIV_{daemon}_{name}"]
            assert path.rpartition("/")[0] in written
            assert path.rpartition("/")[2] in {"ca.pem", "cert.pem", "key.pem"}
    text = (DEPLOY / "contiv.yaml").read_text()
    plain = set(re.findall(r"http://[^\s\"\]]+", text))
    assert plain == {"http://127.0.0.1:6667", "http://127.0.0.1:6668"}, "of etcd, to itself"
    etcd = next(one for one in containers(INSTALLED) if one["name"] == "etcd")
    assert "--client-cert-auth" in etcd["command"]


def test_no_service_leads_pods_to_the_masters() -> None:
    services = [each for each in INSTALLED if each["kind"] == "Service"]
    assert [each["metadata"]["name"] for each in services] == ["contiv-etcd"]
    (asked_for,) = documents(DEPLOY / "rest-service" / "netmaster.yaml")
    assert asked_for["kind"] == "Service"


def test_nobody_is_privileged_and_each_says_what_it_needs() -> None:
    everything = [*INSTALLED, *documents(DEPLOY / "openvswitch" / "openvswitch.yaml")]
    for container in containers(everything):
        context = container["securityContext"]
        assert "privileged" not in context, container["name"]
        assert context["capabilities"]["drop"] == ["ALL"], container["name"]


def test_images_have_this_version() -> None:
    everything = [*INSTALLED, *documents(DEPLOY / "openvswitch" / "openvswitch.yaml")]
    images = {container["image"] for container in containers(everything)}
    assert images == {f"contiv/{name}:{VERSION}" for name in ("netplugin", "etcd", "openvswitch")}


def test_probes_ask_what_the_daemons_answer() -> None:
    agent = the_one("DaemonSet", "contiv-netplugin")["spec"]["template"]["spec"]["containers"][0]
    master = the_one("Deployment", "contiv-netmaster")["spec"]["template"]["spec"]["containers"][0]
    assert {HEALTHZ, READYZ} == PATHS
    for container in (agent, master):
        assert container["livenessProbe"]["httpGet"]["path"] == HEALTHZ
        assert container["readinessProbe"]["httpGet"]["path"] == READYZ
        assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
        assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    ports = {port["name"]: port["containerPort"] for port in agent["ports"]}
    assert ports == {"health": netplugin_settings.REST_PORT}


def test_commands_of_the_containers_exist() -> None:
    parsers = {
        ("netplugin", enrol.ENROL): lambda words: enrol._parser().parse_args(words),
        ("netmaster", "kube-certificates"): lambda words: kube_certificates._parser().parse_args(
            words[1:]
        ),
    }
    parsers["netmaster", entry.DEFAULT_NETWORK] = lambda words: (
        default_network._parser().parse_args(words[1:])
    )
    parsers |= {
        ("netplugin", name): lambda words: cni_files._parser().parse_args(words)
        for name in cni_files.HELP
    }
    met = set()
    for container in containers(INSTALLED):
        command = container["command"] + container.get("args", [])
        if len(command) > 1 and (command[0], command[1]) in parsers:
            parsers[command[0], command[1]](command[1:])
            met.add(command[1])
    assert met == {"install-cni", "keep-cni", "enrol", "kube-certificates", "default-network"}


def test_configuration_files_can_be_read() -> None:
    data = the_one("ConfigMap", "contiv-files")["data"]
    KubeConfig.model_validate(json.loads(data["contiv.json"]))
    conflist = json.loads(data["10-contiv.conflist"])
    (plugin,) = conflist["plugins"]
    assert plugin["type"] == "contivk8s"
    assert plugin["capabilities"] == dict.fromkeys(
        ("ips", "mac", "bandwidth", "portMappings"), True
    )


def test_the_one_file_has_all_objects_of_its_overlay() -> None:
    parts = [path for name in ("base", "etcd") for path in (DEPLOY / name).glob("*.yaml")]
    objects = [x for path in parts if path.name != "kustomization.yaml" for x in documents(path)]
    names = sorted((x["kind"], x["metadata"]["name"]) for x in objects)
    assert sorted((x["kind"], x["metadata"]["name"]) for x in INSTALLED) == names


def test_the_image_has_every_package() -> None:
    root = DEPLOY.parents[1]
    listed = re.findall(r"^!(\w+)$", (root / ".containerignore").read_text(), re.MULTILINE)
    packages = {path.parent.name for path in root.glob("*/py.typed")}
    assert packages <= set(listed)


@pytest.mark.parametrize(
    "path", sorted(DEPLOY.rglob("kustomization.yaml")), ids=lambda path: path.parent.name
)
def test_kustomizations_have_the_fields_of_today(path: Path) -> None:
    (made,) = documents(path)
    allowed = {"apiVersion", "kind", "resources", "patches", "components"}
    assert made.keys() <= allowed, "what kustomize 5 calls deprecated"
    for patch in made.get("patches", []):
        assert (path.parent / patch["path"]).is_file()


MOUNTING = (["netplugin"], ["netplugin", "cleanup", "--purge"])
"""Commands that mount /proc/sys anew (`netplugin.kernel.writable_settings`)."""


def test_no_container_runs_a_shell() -> None:
    """The image has none, and no program of a shell's kind beside it."""
    cleanup = documents(DEPLOY / "cleanup.yaml")
    for container in containers([*INSTALLED, *cleanup]):
        probes = [
            container.get(f"{kind}Probe", {}) for kind in ("startup", "liveness", "readiness")
        ]
        hooks = container.get("lifecycle", {}).values()
        run = [one["exec"]["command"] for one in (*probes, *hooks) if "exec" in one]
        for command in (container.get("command", ["etcd"]), *run):
            known = {"netplugin", "netmaster", "python3", "etcd", "etcdctl"}
            assert command[0].rpartition("/")[2] in known, container["name"]


def test_who_mounts_is_not_confined_by_a_profile() -> None:
    """By the field, not by the annotation that is deprecated since Kubernetes 1.30."""
    files = [path for path in FILES if path.parent.name != "before-1.30"]
    assert not [path for path in files if "container.apparmor" in path.read_text()]
    everything = [*INSTALLED, *documents(DEPLOY / "cleanup.yaml")]
    mounts = [one for one in containers(everything) if one["command"] in MOUNTING]
    assert {one["name"] for one in mounts} == {"netplugin", "cleanup"}
    for one in mounts:
        assert one["securityContext"]["appArmorProfile"] == {"type": "Unconfined"}
    (patch,) = documents(DEPLOY / "before-1.30" / "netplugin.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"] == {"appArmorProfile": None}
    assert list(patch["spec"]["template"]["metadata"]["annotations"]) == [
        f"container.apparmor.security.beta.kubernetes.io/{container['name']}"
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, []),
        ({"POD_SUBNET6": "", "POD_GATEWAY6": ""}, []),
        ({"POD_SUBNET6": "fd00:20::/64"}, ["--subnetv6", "fd00:20::/64"]),
        (
            {"POD_SUBNET6": "fd00:20::/64", "POD_GATEWAY6": "fd00:20::1"},
            ["--subnetv6", "fd00:20::/64", "--gatewayv6", "fd00:20::1"],
        ),
        (
            {"POD_SUBNET6": "fd00:20::/64", "POD_FIRST_FAMILY": "ipv6"},
            ["--subnetv6", "fd00:20::/64", "--first-family", "ipv6"],
        ),
    ],
)
def test_the_default_network_has_the_subnets_of_the_settings(
    given: dict[str, str], words: list[str]
) -> None:
    data = the_one("ConfigMap", "contiv")["data"]
    usual = "network create -t default --encap vxlan --subnet 10.20.0.0/16 --gateway 10.20.255.254"
    said = default_network.network_words(data | given)
    assert said == [*usual.split(), *words, "default-net"]
    assert {"POD_SUBNET6", "POD_GATEWAY6", "POD_FIRST_FAMILY"} <= data.keys()


UNCONFINED = {"netplugin": "mounts, and enters namespaces", "openvswitch": "loads a module"}
"""Containers without the runtime's filter of system calls, and why."""
NEEDED = {
    "install-cni": {"DAC_OVERRIDE"},
    "cni": {"DAC_OVERRIDE"},
    "etcd": {"DAC_OVERRIDE"},
    "netplugin": {"NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "SYS_ADMIN", "DAC_OVERRIDE"},
    "openvswitch": {"NET_ADMIN", "NET_RAW", "NET_BROADCAST", "SYS_MODULE", "SYS_NICE"}
    | {"DAC_OVERRIDE"},
}
"""Capabilities; all other containers have none."""


def test_containers_are_restricted_but_for_what_they_need() -> None:
    """The profile `restricted` of Pod Security, container by container; pods need host network."""
    everything = [*INSTALLED, *documents(DEPLOY / "openvswitch" / "openvswitch.yaml")]
    for container in containers(everything):
        name, context = container["name"], container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"], name
        assert set(context["capabilities"].get("add", [])) == NEEDED.get(name, set()), name
        if name in UNCONFINED:
            assert "seccompProfile" not in context, f"{name}: no exception any more"
            continue
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True, name


def test_no_object_is_of_an_api_that_goes() -> None:
    everything = [one for path in FILES for one in documents(path)]
    assert {one["apiVersion"] for one in everything} == {
        *("v1", "apps/v1", "rbac.authorization.k8s.io/v1"),
    }
