"""Three nodes with a master each, on a store under test, joined by a fabric.

In come a directory and a kind of store; out comes a cluster whose masters can be asked for their
leader and for what they hold. Faults are `tests.system.faults.nemesis`' business.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Final

from core import keys
from tests.bed.daemon import LOG_TAIL
from tests.bed.hosts import Fabric
from tests.bed.master import MODES, Master
from tests.bed.netns import fresh_name, http_request
from tests.bed.waiting import eventually
from tests.system.faults.evidence import Evidence, Told, group_of
from tests.system.faults.nodes import Node
from tests.system.faults.stores import NewMembers

NODES: Final = 3
LEASE: Final = 2
"""Seconds after which a master that is not heard of has lost the lock."""


class FaultyCluster:
    """Nodes, store and masters."""

    def __init__(self, directory: Path, new_members: NewMembers) -> None:
        self.fabric = Fabric(fresh_name("fabric"))
        self.nodes = [Node(number, fresh_name(f"n{number}")) for number in range(1, NODES + 1)]
        self.masters: list[Master] = []
        self._directory = directory
        self._new_members = new_members
        self._undo = ExitStack()

    def start(self) -> "FaultyCluster":
        """Start everything, and wait until a master leads and each one knows it."""
        with ExitStack() as undo:
            undo.callback(self.fabric.stop)
            self.fabric.start()
            for node in self.nodes:
                undo.callback(node.stop)
                node.start(self.fabric)
            self.store = self._new_members(self._directory, self.nodes, self.fabric)
            undo.callback(self.store.stop)
            self.store.start()
            self.masters = [self._master(place) for place in range(NODES)]
            for master in self.masters:
                undo.callback(master.kill)
                master.spawn()
            for master in self.masters:
                master.await_ready()
            self._undo = undo.pop_all()
        return self

    def stop(self) -> None:
        """End everything, in reverse order of its start."""
        self._undo.close()

    def leader(self) -> int | None:
        """Return the place of the master that leads, as far as any of them says."""
        for master in filter(lambda master: master.running, self.masters):
            info = self._get(f"{master.url}/info")
            if info is not None:
                address = json.loads(info)["leader-ip"]
                return next(
                    (n for n, one in enumerate(self.masters) if one.address == address), None
                )
        return None

    def led(self) -> bool:
        """Whether every master answers, which a follower does with its leader's words."""
        return all(self._get(f"{master.url}/version") is not None for master in self.masters)

    def await_led(self, *, within: float) -> None:
        """Wait until every master answers; a failure shows what each of them and the store said."""
        try:
            eventually(self.led, "every master knows a leader", within=within)
        except TimeoutError as exc:
            said = [
                f"{'runs' if one.running else 'ended'}: {one.log}\n{one.log_text()[-LOG_TAIL:]}"
                for one in (*self.masters, *self.store.servers)
            ]
            raise TimeoutError("\n".join([str(exc), *said])) from exc

    def evidence(self, networks: Sequence[str]) -> Evidence:
        """Return what is there, once it stays the same while it is looked at."""

        def look() -> Evidence | None:
            before = self.store.entries(keys.ROOT)
            told = {network: self.told(network) for network in networks}
            after = self.store.entries(keys.ROOT)
            same = _lasting(before) == _lasting(after)
            found = {network: one for network, one in told.items() if one is not None}
            return Evidence(after, found) if same and len(found) == len(told) else None

        found = eventually(look, "a store that stays the same")
        assert found is not None
        return found

    def told(self, network: str) -> Told | None:
        """Return what the leader says of a network; None if there is no leader."""
        answer = self._get(f"{self.masters[0].url}/api/v1/inspect/networks/default:{network}/")
        return None if answer is None else Told.read(json.loads(answer)["Oper"])

    def make_network(self, name: str, subnet: str, gateway: str, clients: Sequence[str]) -> None:
        """Make a network, and a group of it for each client."""
        network = {
            "tenantName": "default",
            "networkName": name,
            "encap": "vxlan",
            "subnet": subnet,
            "gateway": gateway,
        }
        self._post(f"/api/v1/networks/default:{name}/", network)
        for client in clients:
            group = group_of(client, name)
            self._post(
                f"/api/v1/endpointGroups/default:{group}/",
                {"tenantName": "default", "groupName": group, "networkName": name},
            )

    def create_endpoint(self, network: str, name: str, address: str) -> bool:
        """Create an endpoint with an address of our choice; whether that was done."""
        config = {"Container": name, "Host": "nowhere", "IPAddress": address}
        body = {"TenantName": "default", "NetworkName": network, "ConfigEP": config}
        return self.masters[0].ask("POST", "/plugin/createEndpoint", body).status == 200

    def delete_endpoint(self, network: str, name: str) -> None:
        """Take an endpoint back."""
        body = {"TenantName": "default", "NetworkName": network, "EndpointID": name}
        self._post("/plugin/deleteEndpoint", body)

    def release_address(self, network: str, address: str) -> None:
        """Take a reservation back."""
        body = {"NetworkID": f"{network}.default", "IPv4Address": address}
        self._post("/plugin/releaseAddress", body)

    def _post(self, path: str, body: object) -> None:
        answer = self.masters[0].ask("POST", path, body)
        assert answer.status == 200, answer.text

    def _get(self, url: str) -> bytes | None:
        try:
            status, body = http_request(url, namespace=self.fabric.namespace, timeout=2)
        except (OSError, HTTPException):
            return None
        return body if status == 200 else None

    def _master(self, place: int) -> Master:
        node = self.nodes[place]
        return Master(
            self._directory,
            self.store.reached(place),
            name=f"netmaster-{node.label}",
            leads=False,
            flags=(*MODES, "--lease-ttl", str(LEASE)),
            namespace=node.namespace,
            host=node.address,
        )


def _lasting(store: dict[str, bytes]) -> dict[str, bytes]:
    """Return what of a store does not change by itself."""
    return {key: value for key, value in store.items() if key.startswith(keys.LEADER_PREFIXES)}
