"""Which links of this host hear no router advertisements, although they live by them.

A link with `accept_ra` 1, the kernel's default, hears them only as long as the host does not
forward. What it has of them expires: addresses, the routes to its networks, and the default route,
which the kernel removes at once. In come the kernel's files, out come names of links.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.errors import HostError

PROC: Final = Path("/proc")
_EXPIRES: Final = 0x00400000
"""Of routes (RTF_EXPIRES in ipv6_route.h): advertisements alone make such, and administrators."""


def needing(proc: Path = PROC) -> list[str]:
    """Return the links that need `accept_ra` 2 on a host that forwards. Raises HostError.

    The kernel's default route of an advertisement is gone once the host forwards, but the other
    routes stay until they expire.
    """
    try:
        routes = (proc / "net" / "ipv6_route").read_text(encoding="ascii")
        return [link for link in sorted(set(expiring(routes))) if _hears_as_host(proc, link)]
    except FileNotFoundError:
        return []  # no IPv6 here, or the link has gone
    except OSError as exc:
        raise HostError(f"{exc.filename} cannot be read: {exc.strerror}") from exc


def expiring(routes: str) -> Iterator[str]:
    """Yield the links of routes that expire, as /proc/net/ipv6_route has them."""
    for line in routes.splitlines():
        *_, flags, link = line.split()
        if int(flags, 16) & _EXPIRES:
            yield link


def _hears_as_host(proc: Path, link: str) -> bool:
    accepts = proc / "sys" / "net" / "ipv6" / "conf" / link / "accept_ra"
    return accepts.read_text(encoding="ascii").strip() == "1"
