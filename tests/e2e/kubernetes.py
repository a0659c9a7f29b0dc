"""The cases on a real cluster, in their order: install, use, break, upgrade, uninstall.

`make e2e-k8s` runs them; a line of its output is a case. Not part of `make test`: they need
Kubernetes' programs and some minutes. A case leaves the cluster whole for the next one.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any

from core.addresses import authority, url_host
from core.version import VERSION
from daemons.certificates import enrolment
from tests.bed.waiting import eventually
from tests.e2e.cluster import PATIENCE, SYSTEM, RealCluster
from tests.e2e.images import TOOLS
from tests.e2e.node import Node

REPLICAS = 6
IMAGE = f"docker.io/contiv/netplugin:{VERSION}"
DEPLOYMENT = f"""apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {REPLICAS}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {{matchLabels: {{app: web}}}}
      containers:
        - name: c
          image: {TOOLS}
          imagePullPolicy: Never
          command: [sh, -c, "hostname >/www/index.html; exec httpd -f -p 8080 -h /www"]
          readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 2, timeoutSeconds: 5}}
          livenessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 5, timeoutSeconds: 5}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec:
  type: NodePort
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080, nodePort: 30080}}]
"""
ROLLED = f"""apiVersion: apps/v1
kind: Deployment
metadata: {{name: rolled}}
spec:
  replicas: 4
  strategy: {{rollingUpdate: {{maxUnavailable: 0, maxSurge: 2}}}}
  selector: {{matchLabels: {{app: rolled}}}}
  template:
    metadata: {{labels: {{app: rolled}}}}
    spec:
      terminationGracePeriodSeconds: 60
      containers:
        - name: c
          image: {TOOLS}
          imagePullPolicy: Never
          command: [sh, -c, "hostname >/www/index.html; exec httpd -f -p 8080 -h /www"]
          readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 2, timeoutSeconds: 5}}
          # Kubernetes ends a pod and takes it from its services at once, in no order: a pod that
          # is to lose no request serves on for a while
          lifecycle: {{preStop: {{exec: {{command: [sleep, "20"]}}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: rolled}}
spec:
  selector: {{app: rolled}}
  ports: [{{port: 80, targetPort: 8080}}]
"""
GATED = """apiVersion: v1
kind: Pod
metadata: {name: gated, labels: {app: gated}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  readinessGates: [{conditionType: example.org/let-in}]
  containers:
    - name: c
      image: %s
      imagePullPolicy: Never
      command: [sh, -c, "hostname >/www/index.html; exec httpd -f -p 8080 -h /www"]
---
apiVersion: v1
kind: Service
metadata: {name: gated}
spec:
  selector: {app: gated}
  ports: [{port: 80, targetPort: 8080}]
"""
NAMED = f"""apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: named}}
spec:
  replicas: 1
  serviceName: named
  selector: {{matchLabels: {{app: named}}}}
  template:
    metadata: {{labels: {{app: named}}}}
    spec:
      containers:
        - {{name: c, image: {TOOLS}, imagePullPolicy: Never, command: [sleep, "99999999"]}}
"""
DENY = """apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {friend: "yes"}}}]}]
"""


def pod(name: str, node: Node, **labels: str) -> str:
    """Return a pod that waits for commands, on a node."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": node.name,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "c",
                        "image": TOOLS,
                        "imagePullPolicy": "Never",
                        "command": ["sleep", "99999999"],
                    }
                ],
            },
        }
    )


def started(cluster: RealCluster, selector: str, count: int) -> list[dict[str, Any]]:
    """Wait until so many pods, and no others, are ready; return them."""

    def ready() -> list[dict[str, Any]]:
        found = (cluster.get("pods", "-l", selector) or {"items": []})["items"]
        return found if len(found) == count and all(map(is_ready, found)) else []

    return list(cluster.until(ready, f"{count} pods {selector} are ready"))


def is_ready(found: dict[str, Any]) -> bool:
    conditions = found["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def request(address: str, port: int, within: int = 5) -> str:
    """Return what a shell runs to ask a web server for its page, in so many seconds."""
    return f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout {within} nc {address} {port}"


def fetched(cluster: RealCluster, client: str, address: str, port: int) -> str:
    """Return what a web server says to a pod, "" if it says nothing."""
    line = request(address, port)
    return last_line(cluster.kubectl("exec", client, "--", "sh", "-c", line, check=False))


def fetched_by(node: Node, address: str, port: int) -> str:
    """Return what a web server says to a node."""
    url = f"http://{authority(address, port)}/"
    return last_line(node.run("curl", "-s", "--max-time", "5", url, check=False))


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def address(cluster: RealCluster, service: str) -> str:
    return str(cluster.get("service", service)["spec"]["clusterIP"])


def addresses(pods: list[dict[str, Any]]) -> set[str]:
    """Return the addresses of pods, of all families."""
    return {one["ip"] for pod in pods for one in pod["status"]["podIPs"]}


def agent_on(cluster: RealCluster, node: Node) -> dict[str, Any]:
    """Return the agent's pod of a node."""
    return pod_on(cluster, node, "contiv-netplugin")


def pod_on(cluster: RealCluster, node: Node, name: str) -> dict[str, Any]:
    """Return the pod of a program on a node."""
    return next(one for one in cluster.pods_of(name) if one["spec"]["nodeName"] == node.name)


def web_pod_on(cluster: RealCluster, node: Node) -> str:
    """Return the address of a pod of the deployment on a node."""
    return next(
        str(one["status"]["podIP"])
        for one in started(cluster, "app=web", REPLICAS)
        if one["spec"]["nodeName"] == node.name
    )


def works(cluster: RealCluster) -> bool:
    """Return whether pods of each node get answers from the service, by address and by name."""
    where = address(cluster, "web")
    return all(fetched(cluster, f"client-{node.name}", where, 80) for node in cluster.nodes)


# -- install ---------------------------------------------------------------------------------------


def test_nodes_have_no_network_before(cluster: RealCluster) -> None:
    cluster.await_nodes(ready=False)


def test_install_by_the_manifests(cluster: RealCluster) -> None:
    cluster.install()
    for name, count in (("contiv-netplugin", 3), ("contiv-netmaster", 3), ("contiv-etcd", 1)):
        cluster.until(partial(so_many_ready, cluster, name, count), f"{count} {name} ready")


def so_many_ready(cluster: RealCluster, name: str, count: int) -> bool:
    return len([one for one in cluster.pods_of(name) if is_ready(one)]) == count


def test_installing_again_changes_nothing(cluster: RealCluster) -> None:
    said = cluster.kubectl("apply", "-k", str(cluster.overlay()))
    assert {line.rpartition(" ")[2] for line in said.splitlines()} == {"unchanged"}, said


def test_health_with_reasons(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        for port in (9090, 9999):
            said = json.loads(asked(cluster, node, f"https://{node.in_url}:{port}/readyz"))
            assert said["ready"], said
            assert set(said["checks"].values()) == {"ok"}


def asked(cluster: RealCluster, node: Node, url: str) -> str:
    """Return what a daemon answers those without a certificate, who verify its own."""
    authority = cluster.get("configmap", "-n", SYSTEM, "contiv-authority")["data"]["cluster.pem"]
    trusted = cluster.directory / "cluster.pem"
    trusted.write_text(authority)
    return node.run("curl", "-s", "--cacert", str(trusted), url, check=False)


def test_nobody_without_a_certificate_is_let_in(cluster: RealCluster) -> None:
    node = cluster.nodes[0]
    for url in (":9999/api/v1/tenants/", ":9090/inspect/driver"):
        plain = node.run("curl", "-s", f"http://{node.in_url}{url}", check=False)
        assert not plain, plain
        said = asked(cluster, node, f"https://{node.in_url}{url}")
        assert "tenantName" not in said
        assert said.strip() in {"Not logged in", "access denied"}, said
    store = f"https://{node.in_url}:6666/v3/kv/range"
    refused = node.run("curl", "-sk", "-X", "POST", "-d", '{"key": "AA=="}', store, check=False)
    assert not refused, refused


def test_the_authorities_keys_are_nobodys_but_the_masters(cluster: RealCluster) -> None:
    asks = ("auth", "can-i", "get", "secret/contiv-authority", "-n", SYSTEM, "--as")
    for account, may in (("contiv-certificates", "yes"), ("contiv-netplugin", "no")):
        user = f"system:serviceaccount:{SYSTEM}:{account}"
        assert cluster.kubectl(*asks, user, check=False).strip() == may
    assert cluster.get("service", "-n", SYSTEM, "contiv-netmaster") is None


def test_a_request_of_somebody_else_is_denied(cluster: RealCluster) -> None:
    """A certificate is given by the pod whose token asks, whatever the request says."""
    request = cluster.directory / "other.csr"
    key = cluster.directory / "other.key"
    new = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subject = f"/O=contiv/OU=agent/CN={cluster.nodes[1].name}"
    subprocess.run(
        [*new, "-nodes", "-keyout", key, "-out", request, "-subj", subject],
        check=True,
        capture_output=True,
    )
    asked_for = enrolment.request_object(enrolment.SIGNER_AGENT, request.read_bytes())
    asked_for["metadata"] = {"name": "contiv-other"}
    cluster.kubectl("create", "-f", "-", text=json.dumps(asked_for))

    def denied() -> bool:
        status = cluster.get("csr", "contiv-other").get("status", {})
        kinds = [one["type"] for one in status.get("conditions", [])]
        assert "certificate" not in status
        return kinds == ["Denied"]

    cluster.until(denied, "the request is denied")
    cluster.kubectl("delete", "csr", "contiv-other")


# -- use -------------------------------------------------------------------------------------------


def test_a_deployment_with_probes_starts_on_each_node(cluster: RealCluster) -> None:
    cluster.kubectl("apply", "-f", "-", text=DEPLOYMENT)
    pods = started(cluster, "app=web", REPLICAS)
    assert {one["spec"]["nodeName"] for one in pods} == {node.name for node in cluster.nodes}
    assert len({one["status"]["podIP"] for one in pods}) == REPLICAS
    for one in pods:
        families = tuple(ip_address(each["ip"]).version for each in one["status"]["podIPs"])
        assert families == tuple(map(int, cluster.family.choose("4", "6"))), one["status"]


def test_pods_reach_pods_of_each_node(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        cluster.kubectl("apply", "-f", "-", text=pod(f"client-{node.name}", node, role="client"))
    started(cluster, "role=client", len(cluster.nodes))
    for target in started(cluster, "app=web", REPLICAS):
        for node in cluster.nodes:
            where = target["status"]["podIP"]
            name = target["metadata"]["name"]
            assert fetched(cluster, f"client-{node.name}", where, 8080) == name


def test_nodes_reach_their_own_pods(cluster: RealCluster) -> None:
    for target in started(cluster, "app=web", REPLICAS):
        node = next(one for one in cluster.nodes if one.name == target["spec"]["nodeName"])
        assert fetched_by(node, target["status"]["podIP"], 8080) == target["metadata"]["name"]


def test_a_service_spreads_over_its_pods(cluster: RealCluster) -> None:
    where = address(cluster, "web")
    pods = {one["metadata"]["name"] for one in started(cluster, "app=web", REPLICAS)}
    answers: set[str] = set()
    # Each connection goes to any of six: 24 of them miss one in 8 of 100 runs, these in none.
    for _ in range(200):
        answers.add(fetched(cluster, f"client-{cluster.nodes[0].name}", where, 80))
        if answers >= pods:
            break
    assert answers == pods


def test_nodes_reach_services(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        assert fetched_by(node, address(cluster, "web"), 80)
        assert node.run("curl", "-sk", f"https://{url_host(address(cluster, 'kubernetes'))}/readyz")


def test_node_ports_answer_on_each_node_from_elsewhere(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        url = f"http://{node.in_url}:30080/"
        ask = ["curl", "-s", "--max-time", "5", url]
        # each goes to one of the pods of all nodes
        for number in range(4 * REPLICAS):
            done = cluster.plane.namespace.run(ask, check=False)
            assert done.stdout, f"node port of {node.name}, request {number}"


def test_pods_find_services_by_name(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        said = cluster.kubectl(
            *("exec", f"client-{node.name}", "--"),
            *("nslookup", "web.default.svc.cluster.local", cluster.family.dns),
            check=False,
        )
        assert address(cluster, "web") in said, said


def test_a_label_places_a_pod_in_its_network(cluster: RealCluster) -> None:
    cluster.netctl("tenant", "create", "blue")
    cluster.netctl(
        *("network", "create", "-t", "blue", "--encap", "vxlan"),
        *cluster.family.choose("--subnet=10.77.0.0/24", "--subnetv6=fd00:77::/64"),
        *cluster.family.choose("--gateway=10.77.0.254", "--gatewayv6=fd00:77::ffff"),
        "sea",
    )
    labels = {"io.contiv.tenant": "blue", "io.contiv.network": "sea", "role": "blue"}
    cluster.kubectl("apply", "-f", "-", text=pod("blue", cluster.nodes[1], **labels))
    (found,) = started(cluster, "role=blue", 1)
    assert found["status"]["podIP"].startswith(("10.77.0.", "fd00:77::"))
    target = started(cluster, "app=web", REPLICAS)[0]["status"]["podIP"]
    assert not fetched(cluster, "blue", target, 8080), "tenants do not reach each other"
    cluster.kubectl("delete", "pod", "blue", "--wait")
    # the pod's object is gone before its sandbox, which has the endpoint
    cluster.until(
        lambda: (
            cluster.netctl("network", "rm", "-t", "blue", "sea", check=False)
            and "sea" not in cluster.netctl("network", "ls", "-t", "blue", "--quiet")
        ),
        "the network of the pod can be deleted",
    )
    cluster.netctl("tenant", "rm", "blue")


def test_a_network_policy_is_in_force_and_probes_pass_it(cluster: RealCluster) -> None:
    first = cluster.nodes[0]
    target = started(cluster, "app=web", REPLICAS)[0]["status"]["podIP"]
    client = f"client-{first.name}"
    cluster.kubectl("apply", "-f", "-", text=DENY)
    cluster.until(lambda: not fetched(cluster, client, target, 8080), "others are kept out")
    cluster.kubectl("label", "pod", client, "friend=yes")
    cluster.until(lambda: fetched(cluster, client, target, 8080), "friends are let in")
    started(cluster, "app=web", REPLICAS)
    cluster.kubectl("delete", "networkpolicy", "deny")
    cluster.kubectl("label", "pod", client, "friend-")
    other = f"client-{cluster.nodes[1].name}"
    cluster.until(lambda: fetched(cluster, other, target, 8080), "all are let in again")


def test_scaling_up_and_down_leaves_no_endpoint(cluster: RealCluster) -> None:
    cluster.kubectl("scale", "deployment", "web", "--replicas=12")
    started(cluster, "app=web", 12)
    cluster.kubectl("scale", "deployment", "web", f"--replicas={REPLICAS}")
    kept = addresses(started(cluster, "app=web", REPLICAS))
    kept |= addresses(started(cluster, "role=client", len(cluster.nodes)))
    cluster.until(lambda: endpoints(cluster) == kept, "the store has these pods' endpoints")


def endpoints(cluster: RealCluster) -> set[str]:
    """Return the addresses of all endpoints, as netmaster knows them."""
    found = json.loads(cluster.netctl("network", "inspect", "default-net"))
    entries = found["Oper"].get("endpoints") or []
    return {address for one in entries for address in one["ipAddress"] if address}


# -- break -----------------------------------------------------------------------------------------


@contextmanager
def pinging(cluster: RealCluster, client: str, target: str) -> Iterator[None]:
    """Have a pod ping an address all the while; fail if one of its packets got no answer."""
    line = f"ping -i 0.2 {target} & pinging=$!; cat; kill -INT $pinging; wait $pinging"
    process = subprocess.Popen(
        cluster.kubectl_words("exec", "-i", client, "--", "sh", "-c", line),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield
    finally:
        said, _ = process.communicate(timeout=PATIENCE)
    # ping counts an answer that is on its way when it ends as lost
    answered = {int(number) for number in re.findall(r"seq=(\d+)", said)}
    assert answered == set(range(min(answered), max(answered) + 1)), said
    sent = re.search(r"(\d+) packets transmitted", said)
    assert sent, said
    assert int(sent[1]) - len(answered) <= 1, said


def test_a_killed_agent_comes_back_and_pods_miss_nothing(cluster: RealCluster) -> None:
    first, second, _ = cluster.nodes
    with pinging(cluster, f"client-{first.name}", web_pod_on(cluster, second)):
        for node in (first, second):
            restarts = restarts_of(cluster, node)
            kill(node, "/opt/contiv/bin/netplugin")
            cluster.until(
                partial(restarted, cluster, node, restarts), f"the agent of {node.name} is back"
            )
            assert cluster.ready(node), "a restart is no reason to give the node up"


def restarted(cluster: RealCluster, node: Node, before: int) -> bool:
    return restarts_of(cluster, node) > before and is_ready(agent_on(cluster, node))


def restarts_of(cluster: RealCluster, node: Node, name: str = "netplugin") -> int:
    statuses = pod_on(cluster, node, f"contiv-{name}")["status"]["containerStatuses"]
    return sum(one["restartCount"] for one in statuses if one["name"] == name)


def kill(node: Node, program: str) -> None:
    """End, at once, the daemon of a node whose command line names a program and nothing more."""
    script = (
        'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline 2>/dev/null | '
        f"grep -qE '{program} ?$' && kill -9 ${{p#/proc/}}; done; true"
    )
    node.run("sh", "-c", script)


def led_by(cluster: RealCluster) -> str:
    """Return the address of the node whose netmaster leads."""
    script = (
        "import os, ssl, urllib.request as rest\n"
        "own = [os.environ[f'NETCTL_TLS_{name}'] for name in ('CA', 'CERT', 'KEY')]\n"
        "trust = ssl.create_default_context(cafile=own[0])\n"
        "trust.load_cert_chain(*own[1:])\n"
        "print(rest.urlopen(os.environ['NETMASTER'] + '/info', context=trust).read().decode())\n"
    )
    inside = ("exec", "-n", SYSTEM, "deploy/contiv-netmaster", "-c", "netmaster", "--")
    told = cluster.kubectl(*inside, "/opt/contiv/bin/python", "-c", script)
    return str(json.loads(told)["leader-ip"]).rpartition(":")[0].strip("[]")


def test_the_leading_netmaster_is_killed(cluster: RealCluster) -> None:
    leader = led_by(cluster)
    node = next(one for one in cluster.nodes if one.address == leader)
    before = restarts_of(cluster, node, "netmaster")
    kill(node, "/opt/contiv/bin/netmaster")
    cluster.kubectl("scale", "deployment", "web", f"--replicas={REPLICAS + 2}")
    started(cluster, "app=web", REPLICAS + 2)
    cluster.until(
        lambda: restarts_of(cluster, node, "netmaster") > before, "netmaster was started again"
    )
    cluster.kubectl("scale", "deployment", "web", f"--replicas={REPLICAS}")
    started(cluster, "app=web", REPLICAS)


@contextmanager
def asking(cluster: RealCluster, client: str, target: str) -> Iterator[None]:
    """Have a pod ask a web server all the while, one request after another; fail if one failed."""
    asked = f"{request(target, 80, within=30)} 2>&1"
    tell = "echo no, after $(($(busybox date +%s) - began)) s: $said"
    line = (
        f"while :; do began=$(busybox date +%s); said=$({asked}); "
        f"case $said in *' 200 '*) echo yes;; *) {tell};; esac; done & cat; kill $!"
    )
    process = subprocess.Popen(
        cluster.kubectl_words("exec", "-i", client, "--", "sh", "-c", line),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield
    finally:
        said, _ = process.communicate(timeout=PATIENCE)
    answers = said.splitlines()
    failed = [one for one in answers if one != "yes"]
    print(f"{client}: {len(answers)} requests, {len(failed)} failed")  # noqa: T201 - the result
    assert answers
    assert not failed


def test_a_rollout_under_requests_while_the_leader_is_killed(cluster: RealCluster) -> None:
    cluster.kubectl("apply", "-f", "-", text=ROLLED)
    before = {one["metadata"]["name"] for one in started(cluster, "app=rolled", 4)}
    where = address(cluster, "rolled")
    first, second, _ = cluster.nodes
    for node in (first, second):
        asked_first = partial(fetched, cluster, f"client-{node.name}", where, 80)
        cluster.until(asked_first, f"{node.name} knows the service")
    leads = next(one for one in cluster.nodes if one.address == led_by(cluster))
    restarts = restarts_of(cluster, leads, "netmaster")
    with (
        asking(cluster, f"client-{first.name}", where),
        asking(cluster, f"client-{second.name}", where),
    ):
        cluster.kubectl("rollout", "restart", "deployment/rolled")
        cluster.until(
            lambda: {one["metadata"]["name"] for one in pods_with(cluster, "app=rolled")} - before,
            "new pods begin",
        )
        kill(leads, "/opt/contiv/bin/netmaster")
        rolled = {one["metadata"]["name"] for one in started(cluster, "app=rolled", 4)}
    assert not rolled & before
    cluster.until(
        lambda: restarts_of(cluster, leads, "netmaster") > restarts, "netmaster was started again"
    )
    cluster.kubectl("delete", "service/rolled", "deployment/rolled")
    cluster.until(lambda: not pods_with(cluster, "app=rolled"), "its pods are gone")


def pods_with(cluster: RealCluster, selector: str) -> list[dict[str, Any]]:
    return list((cluster.get("pods", "-l", selector) or {"items": []})["items"])


def test_a_pod_serves_once_its_readiness_gate_says_so(cluster: RealCluster) -> None:
    first, second, _ = cluster.nodes
    cluster.kubectl("apply", "-f", "-", text=GATED % (second.name, TOOLS))
    client, where = f"client-{first.name}", address(cluster, "gated")

    def runs() -> str:
        (found,) = pods_with(cluster, "app=gated")
        itself = found["status"].get("podIP", "")
        return fetched(cluster, client, itself, 8080) if itself else ""

    cluster.until(runs, "the pod answers at its own address")
    assert not fetched(cluster, client, where, 80), "the service has no target yet"
    condition = {"type": "example.org/let-in", "status": "True"}
    cluster.kubectl(
        *("patch", "pod", "gated", "--subresource=status"),
        *("--patch", json.dumps({"status": {"conditions": [condition]}})),
    )
    cluster.until(lambda: fetched(cluster, client, where, 80) == "gated", "it serves")
    cluster.kubectl("delete", "service/gated", "pod/gated", "--wait")


def test_a_pod_deleted_by_force_has_a_successor_of_its_name(cluster: RealCluster) -> None:
    cluster.kubectl("apply", "-f", "-", text=NAMED)
    (old,) = started(cluster, "app=named", 1)
    cluster.kubectl("delete", "pod", "named-0", "--force", "--grace-period=0")

    def succeeded() -> str:
        found = [one for one in pods_with(cluster, "app=named") if is_ready(one)]
        new = [one for one in found if one["metadata"]["uid"] != old["metadata"]["uid"]]
        return str(new[0]["status"]["podIP"]) if new else ""

    where = cluster.until(succeeded, "the set has a pod again")
    assert where != old["status"]["podIP"], "the first one may still run"
    ping = ("exec", f"client-{cluster.nodes[0].name}", "--", "ping", "-c", "1", where)
    cluster.until(lambda: "1 packets received" in cluster.kubectl(*ping, check=False), "it answers")
    cluster.kubectl("delete", "statefulset", "named")
    cluster.until(lambda: not pods_with(cluster, "app=named"), "its pods are gone")
    gone = {where, old["status"]["podIP"]}
    cluster.until(lambda: not gone & endpoints(cluster), "no endpoint is left")


def test_the_api_server_is_away(cluster: RealCluster) -> None:
    where = address(cluster, "web")
    node = cluster.nodes[0]
    ready = f"https://{node.in_url}:9090/readyz"
    cluster.plane.api.kill()
    try:
        kill(node, "/opt/contiv/bin/netplugin")
        eventually(
            lambda: "contivVxlanBridge" in node.run("curl", "-sk", ready, check=False),
            "the agent is back without an API server",
            within=PATIENCE,
        )
        eventually(lambda: fetched_by(node, where, 80), "services are as they were", within=60)
    finally:
        cluster.plane.api.start(within=PATIENCE)
    cluster.until(lambda: works(cluster), "services work")
    cluster.await_nodes(ready=True)


def test_a_node_reboots(cluster: RealCluster) -> None:
    node = cluster.nodes[1]
    node.cut_power()
    node.power_on()
    node.start_runtime()
    node.start_kubelet()
    cluster.until(
        lambda: cluster.ready(node) and is_ready(agent_on(cluster, node)),
        f"{node.name} is back",
    )
    started(cluster, "app=web", REPLICAS)
    started(cluster, "role=client", len(cluster.nodes))
    cluster.until(lambda: works(cluster), "services work")
    kept = addresses(started(cluster, "app=web", REPLICAS))
    kept |= addresses(started(cluster, "role=client", len(cluster.nodes)))
    cluster.until(lambda: endpoints(cluster) == kept, "no endpoint of before is left")


# -- upgrade and uninstall -------------------------------------------------------------------------


def test_an_upgrade_to_another_image_takes_one_node_at_a_time(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        node.tag(IMAGE, f"{IMAGE}-next")

    def is_new(agent: dict[str, Any]) -> bool:
        images = {one["image"] for one in agent["spec"]["containers"]}
        return all(image.endswith("-next") for image in images) and is_ready(agent)

    def done() -> bool:
        agents = cluster.pods_of("contiv-netplugin")
        # an agent that goes and one that comes are of the same node
        away = {one["spec"]["nodeName"] for one in agents if not is_ready(one)}
        assert len(away) <= 1, f"agents of {away} are away at once"
        assert all(cluster.ready(node) for node in cluster.nodes)
        return len(agents) == len(cluster.nodes) and all(map(is_new, agents))

    first, second, third = cluster.nodes
    with (
        pinging(cluster, f"client-{first.name}", web_pod_on(cluster, second)),
        pinging(cluster, f"client-{third.name}", web_pod_on(cluster, third)),
    ):
        cluster.kubectl("apply", "-k", str(cluster.overlay(tag=f"{VERSION}-next")))
        cluster.until(done, "all agents are new", within=2 * PATIENCE)
        cluster.until(lambda: all(map(is_new, cluster.pods_of("contiv-netmaster"))), "masters")
    assert works(cluster)


def test_uninstall_leaves_nothing_on_the_nodes(cluster: RealCluster) -> None:
    cluster.kubectl("delete", "--ignore-not-found", "deployment", "web")
    cluster.kubectl("delete", "pod", "-l", "role=client", "--wait")
    cluster.uninstall()
    for node in cluster.nodes:
        assert node.run("ovs-vsctl", "list-br").split() == ["br-ex"]
