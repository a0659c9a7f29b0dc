"""Whether what a netmaster shows and what its store holds are of one piece.

In come the store's content and a way to ask the master; out come complaints, none if all is well:
an object that is in only one of them, a link that goes one way only, an object without its state
record or the other way round, an address without its user, a count in an inspection that is wrong,
a refusal to tell. It trusts no index of the code under test. It must not know what was changed; how
far each change has come is judged by who made it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from core import ids, keys
from tests.bed.master import Answer
from tests.property.holdings import violations

Doc = Mapping[str, Any]
Place = tuple[str, str]
"""An object's kind and key."""
Ask = Callable[[str, str], Answer]
"""Method and path -> what is answered."""

PLURALS: Final[Mapping[str, str]] = {
    "tenant": "tenants",
    "network": "networks",
    "endpointGroup": "endpointGroups",
    "policy": "policys",
    "rule": "rules",
    "netprofile": "netprofiles",
    "extContractsGroup": "extContractsGroups",
    "appProfile": "appProfiles",
    "serviceLB": "serviceLBs",
    "Bgp": "Bgps",
    "aciGw": "aciGws",
    "global": "globals",
    "volume": "volumes",
    "volumeProfile": "volumeProfiles",
}
_NAMED_BY: Final[Mapping[str, Mapping[str, str]]] = {
    "network": {"tenantName": "tenant"},
    "endpointGroup": {
        "tenantName": "tenant",
        "networkName": "network",
        "netProfile": "netprofile",
        "policies": "policy",
        "extContractsGrps": "extContractsGroup",
    },
    "policy": {"tenantName": "tenant"},
    "rule": {
        "policyName": "policy",
        "fromEndpointGroup": "endpointGroup",
        "toEndpointGroup": "endpointGroup",
    },
    "netprofile": {"tenantName": "tenant"},
    "appProfile": {"tenantName": "tenant", "endpointGroups": "endpointGroup"},
    "serviceLB": {"tenantName": "tenant", "networkName": "network"},
}
"""Kind -> the fields that name objects, and of which kind those are."""

_RECORDS: Final[Mapping[str, Callable[[Doc], str]]] = {
    "network": lambda doc: f"{keys.NETWORKS}{doc['networkName']}.{doc['tenantName']}",
    "endpointGroup": lambda doc: f"{keys.GROUPS}{doc['groupName']}:{doc['tenantName']}",
    "serviceLB": lambda doc: f"{keys.SERVICE_LBS}{doc['serviceName']}:{doc['tenantName']}",
    "Bgp": lambda doc: keys.BGPS + str(doc["hostname"]),
    "global": lambda _: keys.GLOBAL_CONFIG,
}
"""Kind -> the key of the record that stands beside an object."""

_TOTALS: Final = {
    "appProfile": "totalAppProfiles",
    "endpointGroup": "totalEPGs",
    "netprofile": "totalNetprofiles",
    "network": "totalNetworks",
    "policy": "totalPolicies",
    "serviceLB": "totalServicelbs",
}


class _Untold(Exception):
    """Netmaster does not answer a question."""


def complaints(store: Mapping[str, bytes], ask: Ask) -> list[str]:
    """Return what is wrong."""
    try:
        docs = {
            (kind, doc["key"]): doc
            for kind, plural in PLURALS.items()
            for doc in _told(ask, f"/api/v1/{plural}/")
        }
        return [
            *_unlike(store, docs),
            *_one_way(docs),
            *_without_other_half(store, docs),
            *_of_addresses(store),
            *_miscounted(store, docs, ask),
        ]
    except _Untold as exc:
        return [str(exc)]


def _told(ask: Ask, path: str) -> Any:
    answer = ask("GET", path)
    if answer.status != 200:
        raise _Untold(f"GET {path}: {answer.status} {answer.text}")
    return answer.json()


def _unlike(store: Mapping[str, bytes], docs: Mapping[Place, Doc]) -> Iterator[str]:
    stored = {keys.parse_obj(key) for key in store if key.startswith(keys.OBJECTS)}
    for place in stored ^ docs.keys():
        yield f"{place} is {'stored, but not shown' if place in stored else 'shown, not stored'}"


def _one_way(docs: Mapping[Place, Doc]) -> Iterator[str]:
    """Yield the links that lead nowhere or not back, and the names without a link."""
    links = {place: set(_links(doc)) for place, doc in docs.items()}
    for place, doc in docs.items():
        for other in links[place] | set(_names(place[0], doc)):
            if place not in links.get(other, ()):
                yield f"{place} knows {other}, which does not know it"


def _links(doc: Doc) -> Iterator[Place]:
    sets = [link_set.values() for link_set in doc.get("link-sets", {}).values()]
    for link in [*doc.get("links", {}).values(), *(link for links in sets for link in links)]:
        if link.get("key"):
            yield link["type"], link["key"]


def _names(kind: str, doc: Doc) -> Iterator[Place]:
    for field, named in _NAMED_BY.get(kind, {}).items():
        value = doc.get(field) or []
        for name in [value] if isinstance(value, str) else value:
            yield named, name if named == "tenant" else f"{doc['tenantName']}:{name}"


def _without_other_half(store: Mapping[str, bytes], docs: Mapping[Place, Doc]) -> Iterator[str]:
    expected = {
        _RECORDS[kind](doc): (kind, key) for (kind, key), doc in docs.items() if kind in _RECORDS
    }
    prefixes = (keys.NETWORKS, keys.GROUPS, keys.SERVICE_LBS, keys.BGPS, keys.GLOBAL_CONFIG)
    found = {key for key in store if key.startswith(prefixes)}
    for key in expected.keys() ^ found:
        yield f"{expected[key]} has no record" if key in expected else f"{key} has no object"


def _of_addresses(store: Mapping[str, bytes]) -> Iterator[str]:
    networks, endpoints = _held(store, keys.NETWORKS), _held(store, keys.ENDPOINTS)
    for network in networks:
        if keys.grant(network["id"], network["gateway"]) not in store:
            yield f"the gateway of {network['id']} is not granted"
        grants = keys.grants(network["id"])
        own = {key for key in store if key.startswith(grants)}
        own |= {keys.endpoint(one["id"]) for one in endpoints if one["netID"] == network["id"]}
        yield from violations({key: store[key] for key in own})
    for service in _held(store, keys.SERVICE_LBS):
        network_id = ids.network_id(service["subnet"], service["tenantname"])
        if keys.grant(network_id, service["ipaddress"]) not in store:
            yield f"the address of service {service['servicename']} is not granted"
    known = {network["id"] for network in networks}
    for endpoint in endpoints:
        if endpoint["netID"] not in known:
            yield f"endpoint {endpoint['id']} is on no network"
        if endpoint["endpointGroupKey"] and keys.group(endpoint["endpointGroupKey"]) not in store:
            yield f"endpoint {endpoint['id']} is in no group"


def _miscounted(store: Mapping[str, bytes], docs: Mapping[Place, Doc], ask: Ask) -> Iterator[str]:
    owned = Counter((kind, doc.get("tenantName")) for (kind, _), doc in docs.items())
    endpoints = Counter(
        endpoint["netID"].partition(".")[2] for endpoint in _held(store, keys.ENDPOINTS)
    )
    for tenant in (key for kind, key in docs if kind == "tenant"):
        expected = {total: owned[kind, tenant] for kind, total in _TOTALS.items()}
        expected["totalEndpoints"] = endpoints[tenant]
        oper = _told(ask, f"/api/v1/inspect/tenants/{tenant}/").get("Oper", {})
        for total, count in expected.items():
            if oper.get(total, 0) != count:
                yield f"tenant {tenant} shows {oper.get(total, 0)} as {total}, not {count}"


def _held(store: Mapping[str, bytes], prefix: str) -> list[Doc]:
    return [json.loads(value) for key, value in store.items() if key.startswith(prefix)]
