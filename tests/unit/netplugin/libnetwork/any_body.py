"""What tests of any body share."""

from typing import Any

POOL = {"PoolID": "n1.default|10.1.0.0/16"}


NETWORK = {"NetworkID": "d1"}


ENDPOINT = {**NETWORK, "EndpointID": "e1"}


SUBNET = [{"Pool": "10.7.0.0/24", "Gateway": "10.7.0.1/24"}]


GOOD: dict[str, dict[str, Any]] = {
    "NetworkDriver.CreateNetwork": {
        **NETWORK,
        "Options": {"com.docker.network.generic": {"network": "n1"}},
        "IPv4Data": SUBNET,
        "IPv6Data": [],
    },
    "NetworkDriver.DeleteNetwork": NETWORK,
    "NetworkDriver.AllocateNetwork": {**NETWORK, "Options": {}, "IPv4Data": SUBNET, "IPv6Data": []},
    "NetworkDriver.FreeNetwork": NETWORK,
    "NetworkDriver.CreateEndpoint": {
        **ENDPOINT,
        "Interface": {"Address": "10.1.0.5/16", "AddressIPv6": "", "MacAddress": ""},
        "Options": {},
    },
    "NetworkDriver.DeleteEndpoint": ENDPOINT,
    "NetworkDriver.EndpointOperInfo": ENDPOINT,
    "NetworkDriver.Join": {**ENDPOINT, "SandboxKey": "/run/netns/1", "Options": {}},
    "NetworkDriver.Leave": ENDPOINT,
    "NetworkDriver.ProgramExternalConnectivity": {**ENDPOINT, "Options": {}},
    "NetworkDriver.RevokeExternalConnectivity": ENDPOINT,
    "IpamDriver.RequestPool": {
        "AddressSpace": "contivGlobal",
        "Pool": "10.1.0.0/16",
        "SubPool": "",
        "Options": {},
        "V6": False,
    },
    "IpamDriver.ReleasePool": POOL,
    "IpamDriver.RequestAddress": {**POOL, "Address": "", "Options": {}},
    "IpamDriver.ReleaseAddress": {**POOL, "Address": "10.1.0.1"},
}
