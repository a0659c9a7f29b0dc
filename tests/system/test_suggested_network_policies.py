"""NetworkPolicies that are suggested of connections that were seen: those pass, and nothing else.

Posted as they are printed; `tests/system/test_network_policies.py` has all modes.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import yaml

from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from tests.bed.cluster import Bed
from tests.bed.kubernetes import ApiServer
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials
from tests.system.kube_site import api_beside, api_flags
from tests.system.planes import planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

NETWORK = "vxlan"
SEEN, OTHER = 8080, 8081
SILENCE = 0.7
"""Seconds without an answer after which a connection counts as denied: a policy drops."""
GROUP_LABEL = "io.contiv.net-group"


@pytest.fixture(scope="module")
def cluster(
    bed_dirs: Iterator[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Bed, ApiServer]]:
    """Run two hosts that record flows beside an API server, with groups `web` and `db`."""
    flags = {"netplugin": [*api_flags(tmp_path_factory), "--flow-records"]}
    with planes(next(bed_dirs), "routing", flags=flags) as bed, api_beside(bed) as api:
        for group in ("web", "db"):
            bed.netctl("group", "create", NETWORK, group)
        yield bed, api


def opens(client: Pod, server: Pod, port: int) -> bool:
    # with time to send a SYN again: the switch drops what comes while it purges megaflows
    return dials(client.namespace, server.address, port)


def is_shut(client: Pod, server: Pod, port: int) -> bool:
    return not dials(client.namespace, server.address, port, patience=SILENCE)


def test_what_was_seen_passes_and_nothing_else(cluster: tuple[Bed, ApiServer]) -> None:
    bed, api = cluster
    here, there = bed.hosts
    with ExitStack() as stack:
        made: dict[str, Pod] = {}
        for name, host, group in (
            ("web1", here, "web"),
            ("web2", there, "web"),
            ("db1", here, "db"),
            ("stranger", there, ""),
        ):
            labels = {GROUP_LABEL: group} if group else {}
            made[name] = bed.add_pod(host, name, network=NETWORK, group=group, labels=labels)
            stack.callback(bed.delete_pod, made[name])
        web1, web2, db, stranger = made.values()
        for pod in (db, web2):
            for port in (SEEN, OTHER):
                stack.enter_context(answering(pod.namespace, pod.address, port))
        # Kubernetes gives each namespace this label
        namespace = db.sandbox.kube_namespace
        named = {"labels": {"kubernetes.io/metadata.name": namespace}}
        api.put("namespaces", "", namespace, metadata=named)

        def suggested() -> str:
            words = ["-g", "db", "-g", "web", "-o", "networkpolicy"]
            return bed.netctl("policy", "suggest", *words)

        # again and again: one that ends within a second need not be seen
        eventually(
            lambda: opens(web1, db, SEEN) and f"port: {SEEN}" in suggested(), "it is recorded"
        )
        for one in yaml.safe_load_all(suggested()):
            name = one["metadata"]["name"]
            assert one["metadata"]["namespace"] == namespace
            api.put(NETWORK_POLICIES, namespace, name, spec=one["spec"])
            stack.callback(api.delete, NETWORK_POLICIES, namespace, name)
        for client, server, port in (
            (web1, db, OTHER),
            (stranger, db, SEEN),
            (web2, db, OTHER),
            (db, web2, SEEN),
            (web1, web2, SEEN),
            (stranger, web2, SEEN),
        ):
            # each host takes the policies up when it hears of them
            shut = partial(is_shut, client, server, port)
            eventually(shut, f"{client.name} to {server.name}:{port} is shut")
        assert opens(web1, db, SEEN), "what was seen"
        assert opens(web2, db, SEEN), "of the same group"
