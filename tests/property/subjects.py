"""What can be changed, kind by kind: the requests that lead a subject through its life and back.

Each subject has a tenant or a name of its own, so that what the store holds of it is told by its
`mark`. Its requests begin and end with nothing of it there but what `before` made. A kind that is
added gets one entry here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple


class Request(NamedTuple):
    """One request, and with what status it is answered in its turn."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    status: int = 200

    @property
    def payload(self) -> bytes:
        """The body as it is sent."""
        return json.dumps(self.body).encode() if self.body is not None else b""


@dataclass(frozen=True)
class Subject:
    """One kind's life. `mark` is in every key of the store that tells of it."""

    kind: str
    mark: str
    before: tuple[Request, ...]
    life: tuple[Request, ...]

    def copy(self, number: int) -> "Subject":
        """Return the same under another name, with other tags, so that both can live at once."""
        mark = f"{self.mark}-{number}"

        def renamed(request: Request) -> Request:
            body = json.loads(json.dumps(request.body).replace(self.mark, mark))
            if body and "pktTag" in body:
                body["pktTag"] += 100 * number
            return request._replace(path=request.path.replace(self.mark, mark), body=body)

        before, life = (tuple(map(renamed, part)) for part in (self.before, self.life))
        return replace(self, mark=mark, before=before, life=life)


def post(plural: str, *names: str, **fields: Any) -> Request:
    """Return a request to create or update an object."""
    return Request("POST", f"/api/v1/{plural}/{':'.join(names)}/", fields)


def delete(plural: str, *names: str) -> Request:
    """Return a request to delete an object."""
    return Request("DELETE", f"/api/v1/{plural}/{':'.join(names)}/")


def _tenant(name: str) -> Request:
    return post("tenants", name, tenantName=name)


def _network(tenant: str, tag: int, name: str = "n") -> Request:
    return post(
        "networks", tenant, name, tenantName=tenant, networkName=name, encap="vxlan",
        pktTag=tag, subnet="10.1.0.0/16", gateway="10.1.0.1",
    )  # fmt: skip


def _group(tenant: str, name: str = "g", **more: Any) -> Request:
    return post(
        "endpointGroups", tenant, name, tenantName=tenant, groupName=name, networkName="n", **more
    )


def _policy(tenant: str) -> Request:
    return post("policys", tenant, "p", tenantName=tenant, policyName="p")


def _rule(tenant: str, number: int, **more: Any) -> Request:
    asked = {"direction": "in", "action": "allow", "priority": 1} | more
    return post(
        "rules", tenant, "p", str(number), tenantName=tenant, policyName="p",
        ruleId=str(number), **asked,
    )  # fmt: skip


def _netprofile(tenant: str, burst: int) -> Request:
    return post(
        "netprofiles", tenant, "np", tenantName=tenant, profileName="np", bandwidth="10 mbps",
        burst=burst, DSCP=3,
    )  # fmt: skip


def _service(tenant: str, *ports: str) -> Request:
    return post(
        "serviceLBs", tenant, "s", tenantName=tenant, serviceName="s", networkName="n",
        ipAddress="10.1.0.9", ports=list(ports), selectors=["app=web"],
    )  # fmt: skip


def _bgp(host: str, number: str) -> Request:
    return post(
        "Bgps", host, **{"hostname": host, "routerip": "50.1.1.1/24", "as": number,
        "neighbor-as": "65002", "neighbor": "50.1.1.2"},
    )  # fmt: skip


def _contracts(tenant: str) -> Request:
    return post(
        "extContractsGroups", tenant, "c", tenantName=tenant, contractsGroupName="c",
        contractsType="consumed", contracts=["c1"],
    )  # fmt: skip


def _profile(tenant: str, *groups: str) -> Request:
    return post(
        "appProfiles", tenant, "a", tenantName=tenant, appProfileName="a",
        endpointGroups=list(groups),
    )  # fmt: skip


def _aci_gateway(domain: str) -> Request:
    return post(
        "aciGws", "aciGw", name="aciGw", physicalDomain=domain, enforcePolicies="yes",
        includeCommonTenant="no",
    )  # fmt: skip


def _settings(arp_mode: str) -> Request:
    return post(
        "globals", "global", name="global", networkInfraType="default", fwdMode="routing",
        arpMode=arp_mode, pvtSubnet="172.19.0.0/16", vlans="1-4094", vxlans="1-10000",
    )  # fmt: skip


def _endpoint(verb: str, tenant: str, **more: Any) -> Request:
    return Request("POST", f"/plugin/{verb}", {"TenantName": tenant, "NetworkName": "n", **more})


def _refused(tenant: str, plural: str, name: str) -> tuple[Request, ...]:
    made = post(plural, tenant, "v", tenantName=tenant, **{name: "v"})
    return tuple(request._replace(status=500) for request in (made, delete(plural, tenant, "v")))


SUBJECTS: Final = (
    Subject("tenant", "t-one", (), (_tenant("t-one"), delete("tenants", "t-one"))),
    Subject(
        "network",
        "t-net",
        (_tenant("t-net"),),
        (_network("t-net", 11), delete("networks", "t-net", "n")),
    ),
    Subject(
        "endpointGroup",
        "t-group",
        (_tenant("t-group"), _network("t-group", 12), _policy("t-group"), _rule("t-group", 1)),
        (
            _group("t-group", ipPool="10.1.1.1-10.1.1.9"),
            _group("t-group", ipPool="10.1.1.1-10.1.1.9", policies=["p"]),
            delete("endpointGroups", "t-group", "g"),
        ),
    ),
    Subject(
        "endpoint",
        "t-end",
        (_tenant("t-end"), _network("t-end", 13), _group("t-end")),
        (
            _endpoint(
                "createEndpoint",
                "t-end",
                EPCommonName="c",
                ConfigEP={
                    "Container": "c",
                    "Host": "h",
                    "ServiceName": "g",
                    "IPAddress": "10.1.0.5",
                },
            ),
            _endpoint("deleteEndpoint", "t-end", EndpointID="c"),
        ),
    ),
    Subject(
        "address",
        "t-addr",
        (_tenant("t-addr"), _network("t-addr", 14)),
        (
            Request(
                "POST",
                "/plugin/allocAddress",
                {"NetworkID": "n.t-addr", "PreferredIPv4Address": "10.1.0.7"},
            ),
            Request(
                "POST",
                "/plugin/releaseAddress",
                {"NetworkID": "n.t-addr", "IPv4Address": "10.1.0.7"},
            ),
        ),
    ),
    Subject(
        "policy",
        "t-pol",
        (_tenant("t-pol"),),
        (
            _policy("t-pol"),
            *(_rule("t-pol", number) for number in range(1, 4)),
            delete("policys", "t-pol", "p"),
        ),
    ),
    Subject(
        "rule",
        "t-rule",
        (
            _tenant("t-rule"),
            _network("t-rule", 15),
            _policy("t-rule"),
            _group("t-rule", policies=["p"]),
        ),
        (
            _rule("t-rule", 1, protocol="tcp", port=80),
            _rule("t-rule", 2, action="deny", fromEndpointGroup="g"),
            delete("rules", "t-rule", "p", "1"),
            delete("rules", "t-rule", "p", "2"),
        ),
    ),
    Subject(
        "netprofile",
        "t-prof",
        (_tenant("t-prof"), _network("t-prof", 16)),
        (
            _netprofile("t-prof", 1500),
            _group("t-prof", netProfile="np"),
            _netprofile("t-prof", 2000),
            delete("endpointGroups", "t-prof", "g"),
            delete("netprofiles", "t-prof", "np"),
        ),
    ),
    Subject(
        "serviceLB",
        "t-serv",
        (_tenant("t-serv"), _network("t-serv", 17)),
        (
            _service("t-serv", "80:8080:TCP"),
            _service("t-serv", "80:8080:TCP", "53:53:UDP"),
            delete("serviceLBs", "t-serv", "s"),
        ),
    ),
    Subject(
        "Bgp",
        "h-bgp",
        (),
        (_bgp("h-bgp", "65001"), _bgp("h-bgp", "65003"), delete("Bgps", "h-bgp")),
    ),
    Subject(
        "extContractsGroup",
        "t-contr",
        (_tenant("t-contr"), _network("t-contr", 18)),
        (
            _contracts("t-contr"),
            _group("t-contr", extContractsGrps=["c"]),
            delete("endpointGroups", "t-contr", "g"),
            delete("extContractsGroups", "t-contr", "c"),
        ),
    ),
    Subject(
        "appProfile",
        "t-app",
        (_tenant("t-app"), _network("t-app", 19), _group("t-app"), _group("t-app", "g2")),
        (
            _profile("t-app", "g"),
            _profile("t-app", "g", "g2"),
            delete("appProfiles", "t-app", "a"),
        ),
    ),
    Subject("aciGw", "aciGw", (_aci_gateway("d2"),), (_aci_gateway("d1"), _aci_gateway("d2"))),
    Subject("global", "/global", (), (_settings("flood"), _settings("proxy"))),
)
LARGE: Final = (
    Subject(
        "policy",
        "t-large",
        (_tenant("t-large"), _policy("t-large"), *(_rule("t-large", n) for n in range(60))),
        (delete("policys", "t-large", "p"),),
    ),
    Subject(
        "netprofile",
        "t-wide",
        (
            *(_tenant("t-wide"), _network("t-wide", 20), _netprofile("t-wide", 1500)),
            *(_group("t-wide", f"g{n}", netProfile="np") for n in range(60)),
        ),
        (_netprofile("t-wide", 2000),),
    ),
)
"""Changes that take more than one transaction; these do not lead back."""

CLEAN_UP: Final = Subject(
    "clean-up",
    "t-clean",
    (
        *(_tenant("t-clean"), _network("t-clean", 21)),
        *(
            _endpoint(
                "createEndpoint",
                "t-clean",
                EPCommonName=f"c{n}",
                ConfigEP={"Container": f"c{n}", "Host": "nowhere"},
            )
            for n in range(60)
        ),
    ),
    # the endpoints go, and whoever asks is told that their host does not know
    (Request("DELETE", "/debug/epcleanup/tenant/t-clean/net/n", status=500),),
)
"""A change in many parts that asks agents too."""

ALONE: Final = (Subject("aciGw", "aciGw", (), (_aci_gateway("d1"), delete("aciGws", "aciGw"))),)
"""Changes that others would be in the way of."""

NEVER_STORED: Final = (
    Subject("volume", "t-volu", (_tenant("t-volu"),), _refused("t-volu", "volumes", "volumeName")),
    Subject(
        "volumeProfile",
        "t-vprf",
        (_tenant("t-vprf"),),
        _refused("t-vprf", "volumeProfiles", "volumeProfileName"),
    ),
)
"""Kinds of which no object can be made, as in the original."""

_PASSING: Final = frozenset({"seq", "endpointGroupId", "grantedAt", "pktTag"})
"""Fields that differ from one life to the next."""


def told(store: Mapping[str, bytes], mark: str) -> dict[str, object]:
    """Return what a store holds of a subject, but what differs from one life to the next."""
    return {key: _lasting(json.loads(value)) for key, value in store.items() if mark in key}


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lasting(item) for name, item in value.items() if name not in _PASSING}
    return value
