"""Links to containers' namespaces in the folder of `ip netns`, one named after each container.

Operators enter a container's namespace by its id, as with the original. Nothing of ours depends on
the links, so a link that cannot be made or removed is logged and harms no call.
"""

import logging
from pathlib import Path
from typing import Final

from core.logs import fields

log = logging.getLogger(__name__)

DIRECTORY: Final = Path("/run/netns")


class NamespaceLinks:
    """The links of this host's containers; ids must be names of files."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._directory = directory

    def put(self, container_id: str, namespace: str) -> None:
        """Link a container's id to its namespace, in place of the link to an earlier one."""
        link = self._directory / container_id
        try:
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            if link.is_symlink():
                link.unlink()
            link.symlink_to(namespace)
        except OSError as exc:
            log.warning("namespace not linked", extra=fields(link=link, error=exc))

    def remove(self, container_id: str) -> None:
        """Remove a container's link. What is no link is somebody else's, and stays."""
        link = self._directory / container_id
        try:
            if link.is_symlink():
                link.unlink()
        except OSError as exc:
            log.warning("namespace link not removed", extra=fields(link=link, error=exc))
