"""What runtimes that were not recorded write into `runtimeConfig`, after their documentation.

Recordings are read by `tests/integration/cni/test_recordings.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from netplugin.cni.request import Verb, parse

GOLDEN = Path(__file__).parents[3] / "golden" / "cni" / "capabilities.jsonl"
CASES = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=f"{one['runtime']}-{at}") for at, one in enumerate(CASES)]
)
def test_what_a_runtime_writes_is_read(case: dict[str, Any]) -> None:
    assert case["source"] == "documented"
    config = {
        "cniVersion": "1.0.0",
        "name": "contiv-net",
        "type": "contivk8s",
        "runtimeConfig": case["runtimeConfig"],
    }
    body = {
        "CNI_NETNS": "/n",
        "CNI_IFNAME": "eth0",
        "CNI_CONTAINERID": "abc",
        "netconf": json.dumps(config),
    }
    request = parse(json.dumps(body).encode(), Verb.ADD)
    assert [f"{one} to {one.container_port}" for one in request.spec.mappings] == case.get(
        "ports", []
    )
    assert [*request.spec.limit] == case.get("sends", [0, 0])
    assert [*request.spec.receive_limit] == case.get("receives", [0, 0])
    assert request.dns == case.get("dns", {})
    assert request.spec.mac == case.get("mac", "")
    assert [str(one) for one in (request.ipv4, request.ipv6) if one] == case.get("ips", [])
