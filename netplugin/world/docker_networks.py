"""Which of our networks a docker network is, as netmaster or an agent stored it. Pure.

`netplugin.world.graph` feeds it records; `netplugin.libnetwork.networks` asks it by docker's id.
"""

from typing import TYPE_CHECKING

from state.records import DocknetRecord

if TYPE_CHECKING:
    from core.ids import DocknetId


class DockerNetworks:
    """The records of docker's networks, each found by docker's id."""

    def __init__(self) -> None:
        self._records: dict[DocknetId, DocknetRecord] = {}

    def put(self, record: DocknetRecord) -> None:
        """Add or replace a record."""
        self._records[record.id] = record

    def remove(self, name: "DocknetId") -> None:
        """Remove a record."""
        self._records.pop(name, None)

    def of(self, docker_id: str) -> DocknetRecord | None:
        """Return the record of a docker network, None if there is none."""
        # An engine has some ten networks, and an answer is kept (`netplugin.libnetwork.networks`).
        return next((one for one in self._records.values() if one.uuid == docker_id), None)
