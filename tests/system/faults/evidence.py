"""What is there when the faults are over: the store's bytes, and what netmaster says of them.

In come keys and values, and netmaster's inspection of each network; out comes an `Evidence` for
`tests.system.faults.checker`. Nothing here passes through code that is under test.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

from core import keys

RESERVATION: Final = "reservation"
GATEWAY: Final = "gateway"


@dataclass(frozen=True, slots=True)
class Grant:
    """One address held: by what kind of owner, and by whom."""

    kind: str
    owner: str


@dataclass(frozen=True, slots=True)
class Told:
    """What netmaster's inspection says of a network."""

    count: int
    allocated: frozenset[str]
    endpoints: Mapping[str, str]

    @classmethod
    def read(cls, oper: Mapping[str, Any]) -> "Told":
        """Read the `Oper` part of an answer, which leaves empty values out."""
        return cls(
            count=oper.get("allocatedAddressesCount", 0),
            allocated=frozenset(_spread(oper.get("allocatedIPAddresses", ""))),
            endpoints={
                endpoint["endpointID"]: endpoint["ipAddress"][0]
                for endpoint in oper.get("endpoints", ())
            },
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """A store, and what was told of it, by network."""

    store: Mapping[str, bytes]
    told: Mapping[str, Told]

    def grants(self, network: str) -> dict[str, Grant]:
        """Return who holds which address of a network."""
        prefix = f"{keys.GRANTS}{network}.default/"
        records = {
            key.removeprefix(prefix): json.loads(value)
            for key, value in self.store.items()
            if key.startswith(prefix)
        }
        return {
            address: Grant(record["owner"], record["ownerID"])
            for address, record in records.items()
        }

    def endpoints(self, network: str) -> dict[str, str]:
        """Return the address of each endpoint of a network, by its name."""
        records = [
            json.loads(value) for key, value in self.store.items() if key.startswith(keys.ENDPOINTS)
        ]
        return {
            record["endpointID"]: record["ipAddress"]
            for record in records
            if record["netID"] == f"{network}.default"
        }


def group_of(client: str, network: str) -> str:
    """Return the name of the group for which a client reserves addresses of a network."""
    return f"{network}-{client}"


def client_of(owner: str) -> str:
    """Return the client whose group the owner of a reservation is."""
    return owner.partition(":")[0].rpartition("-")[2]


def _spread(ranges: str) -> Iterator[str]:
    """Yield each address of a text like `10.1.0.1-10.1.0.3, 10.1.0.9`."""
    for part in filter(None, (text.strip() for text in ranges.split(","))):
        first, _, last = part.partition("-")
        for number in range(int(IPv4Address(first)), int(IPv4Address(last or first)) + 1):
            yield str(IPv4Address(number))
