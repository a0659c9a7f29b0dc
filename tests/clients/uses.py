"""What programs do with the client that openapi-python-client makes: uses.py URL ENDPOINT EXAMPLES.

Runs where that client is installed, with nothing of this project. EXAMPLES are the document's
bodies by class, as JSON, in an order in which they can be created.
"""

import json
import sys
from importlib import import_module
from typing import Any

OPERATIONS = {
    "globals": "global_v2",
    "tenants": "tenant_v2",
    "networks": "network_v2",
    "netprofiles": "netprofile_v2",
    "extContractsGroups": "ext_contracts_group_v2",
    "policys": "policy_v2",
    "endpointGroups": "endpoint_group_v2",
    "rules": "rule_v2",
    "aciGws": "aci_gw_v2",
    "appProfiles": "app_profile_v2",
    "serviceLBs": "service_lbv2",
    "Bgps": "bgp_v2",
}
"""Class -> the end of its operations' names."""
PATCHES: dict[str, dict[str, Any]] = {
    "globals": {"vxlans": "1-12000"},
    "tenants": {"networkPrefixes": ["10.0.0.0/8"]},
    "networks": {"gateway": "10.36.0.254"},
    "netprofiles": {"DSCP": 12},
    "extContractsGroups": {"contractsType": "provided"},
    "policys": {"policyName": "web-in"},
    "endpointGroups": {"policies": []},
    "rules": {"priority": 1},
    "appProfiles": {"endpointGroups": []},
    "serviceLBs": {"selectors": ["app=web"]},
    "aciGws": {"enforcePolicies": "no"},
    "Bgps": {"neighbor-as": "65002"},
}
"""Class -> fields that are changed; to what they are where none can be changed."""
PACKAGE = "contiv_netmaster_client"
PCAP = 0xA1B23C4D
GZIP = b"\x1f\x8b"


def main(url: str, endpoint: str, examples: dict[str, dict[str, Any]]) -> None:
    """Create, change, list, try and delete an object of each class; read what is no object."""
    client = import_module(f"{PACKAGE}.client").Client(base_url=url)
    models: Any = import_module(f"{PACKAGE}.models")

    def call(name: str, *path: str, **more: Any) -> Any:
        operation = import_module(f"{PACKAGE}.api.{more.pop('tag', 'v2')}.{name}")
        return operation.sync_detailed(*path, client=client, **more)

    assert examples.keys() == OPERATIONS.keys() == PATCHES.keys()
    keys = {}
    for plural, example in examples.items():
        operation = OPERATIONS[plural]
        body = by_json(models, operation, "").from_dict(example)
        made = call(f"create_{operation}", body=body)
        if plural == "globals":  # there is one from the beginning
            assert (made.status_code, made.parsed.status) == (409, 409), made
            made = call(f"put_{operation}", "global", body=body)
        assert made.status_code in {200, 201}, made.content
        keys[plural] = made.parsed.key
        assert example.items() <= made.parsed.to_dict().items()
    for plural, fields in PATCHES.items():
        operation, key = OPERATIONS[plural], keys[plural]
        before = call(f"read_{operation}", key)
        etag = before.headers["ETag"]
        body = by_json(models, operation, "Patch").from_dict(fields)
        changed = call(f"patch_{operation}", key, body=body, if_match=etag)
        assert changed.status_code == 200, changed.content
        assert changed.parsed.to_dict() == {**before.parsed.to_dict(), **fields}
        listed = call(f"list_{operation}", limit=100).parsed
        assert key in [item.to_dict()["key"] for item in listed.items]
        assert (listed.next_, listed.revision > 0) == ("", True)
        tried = call(f"delete_{operation}", key, dry_run=True)
        assert tried.status_code == 200 or tried.parsed.remedy, tried.content
    nulled = by_json(models, "tenant_v2", "Patch").from_dict({"networkPrefixes": None})
    assert call("patch_tenant_v2", keys["tenants"], body=nulled).parsed.network_prefixes == []
    refused = call("delete_tenant_v2", keys["tenants"])
    assert (refused.status_code, refused.parsed.status) == (409, 409)
    assert refused.parsed.detail
    body = models.TenantV2.from_dict({"tenantName": "!"})
    assert call("create_tenant_v2", body=body).parsed.errors[0].pointer == "#/tenantName"
    for plural in reversed(examples):
        if plural != "globals":
            assert call(f"delete_{OPERATIONS[plural]}", keys[plural]).status_code == 204, plural
    assert call("read_tenant_v2", keys["tenants"]).parsed.status == 404
    of_endpoints = call("list_endpoints", tag="endpoint").parsed
    assert endpoint in [one.key for one in of_endpoints.items]
    packets = call("capture_packets", endpoint, tag="endpoint", count="2").parsed.payload.read()
    assert int.from_bytes(packets[:4], "little") == PCAP
    archive = call("diagnosis", tag="debug").parsed.payload.read()
    assert archive.startswith(GZIP)
    traced = call("trace_a_packet", tag="trace", src=endpoint, dst="10.20.0.1").parsed
    assert traced.hops[0].steps
    assert call("list_hosts_v2").parsed.items[0].label
    assert call("self_test", tag="hosts").parsed.passed in {True, False}


def by_json(models: Any, operation: str, end: str) -> Any:
    """Return the model of an operation's object: `service_lbv2` is ServiceLBV2."""
    wanted = (operation + end).replace("_", "").lower()
    found = [name for name in models.__all__ if name.lower() == wanted]
    if len(found) != 1:
        raise LookupError(f"of {wanted} there are {found}, among {models.__all__}")
    return getattr(models, found[0])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
