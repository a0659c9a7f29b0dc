"""What the original's name server shows of a recorded store, against ours.

`names/endpoints.json` is what the store held of endpoints; both hosts of the original showed the
same of it, in either forwarding mode. Of a host with two infra networks, whose endpoints have one
id, it showed one.
"""

import json
from pathlib import Path
from typing import Any

from netplugin.dns.nameserver import NameServer
from netplugin.dns.rate_limit import RateLimit
from state.codec import decode_endpoint
from tests.unit.netplugin.worlds import name_book

NAMES = Path(__file__).parent / "names"
ON_TWO_NETWORKS = {"host1": "10.1.7.1", "host12": "10.1.7.2"}
"""Endpoint id -> the address that the original left out."""


def recorded(name: str) -> Any:
    return json.loads((NAMES / f"{name}.json").read_text())


def test_the_names_of_a_store() -> None:
    book = name_book()
    for key, value in recorded("endpoints")["keys"].items():
        book.endpoints.put(decode_endpoint(key, json.dumps(value).encode()))
    wanted = recorded("inspect-nameserver")
    for endpoint_id, address in ON_TWO_NETWORKS.items():
        shown = wanted["dnsRecords"]["default"]["endpoints"][endpoint_id]
        shown.append(f"ipv4:{address} ipv6:<nil>")
    assert json.loads(json.dumps(NameServer(book, RateLimit(0, lambda: 0.0)).report())) == wanted
