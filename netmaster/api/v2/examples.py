"""An example of each class of objects, for OpenAPI; each can be created behind those before.

Data. `tests/integration/netmaster/test_openapi.py` creates them all. Volumes have none: as in the
original, nothing creates them.
"""

from collections.abc import Mapping
from typing import Any, Final

EXAMPLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "globals": {
        "name": "global",
        "fwdMode": "routing",
        "networkInfraType": "default",
        "pvtSubnet": "172.19.0.0/16",
        "vlans": "1-4094",
        "vxlans": "1-10000",
    },
    "tenants": {"tenantName": "blue"},
    "networks": {
        "tenantName": "blue",
        "networkName": "sea",
        "encap": "vxlan",
        "subnet": "10.36.0.0/24",
        "gateway": "10.36.0.254",
    },
    "netprofiles": {
        "tenantName": "blue",
        "profileName": "slow",
        "bandwidth": "10 mbps",
        "DSCP": 10,
        "burst": 200,
    },
    "extContractsGroups": {
        "tenantName": "blue",
        "contractsGroupName": "shared",
        "contractsType": "provided",
        "contracts": ["uni/tn-common/brc-web"],
    },
    "policys": {"tenantName": "blue", "policyName": "web-in"},
    "endpointGroups": {
        "tenantName": "blue",
        "groupName": "web",
        "networkName": "sea",
        "policies": ["web-in"],
        "netProfile": "slow",
    },
    "rules": {
        "tenantName": "blue",
        "policyName": "web-in",
        "ruleId": "http",
        "direction": "in",
        "protocol": "tcp",
        "port": 80,
        "action": "allow",
    },
    "aciGws": {
        "name": "aciGw",
        "physicalDomain": "fabric",
        "enforcePolicies": "yes",
        "includeCommonTenant": "no",
        "nodeBindings": "topology/pod-1/node-101",
    },
    "appProfiles": {
        "tenantName": "blue",
        "appProfileName": "shop",
        "endpointGroups": ["web"],
    },
    "serviceLBs": {
        "tenantName": "blue",
        "serviceName": "shop",
        "networkName": "sea",
        "ipAddress": "10.36.0.100",
        "ports": ["80:8080:TCP"],
        "selectors": ["app=shop"],
    },
    "Bgps": {
        "hostname": "host1",
        "as": "65001",
        "neighbor": "192.0.2.254",
        "neighbor-as": "65000",
        "routerip": "192.0.2.1/24",
    },
}
"""Plural name of a class -> the body that creates an object of it."""
