"""Which links of this host drop what comes by another way than its answers leave (`rp_filter`).

In come names of links, out come those whose setting is strict, by the kernel's files. The kernel
takes the larger one of a link's own setting and that of all links: 0 is off, 1 strict, 2 loose
(ip-sysctl.rst, RFC 3704). Must not know which links may be strict:
`netplugin.bridges.host.host_ports` keeps those of the agent loose, `netplugin.startup.host_checks`
tells of others.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from core.errors import HostError
from netplugin.kernel.netlink import requests as netlink

SETTINGS: Final = Path("/proc/sys/net/ipv4/conf")
_STRICT: Final = "1"
_LOOSE: Final = "2"


def strict(links: Iterable[str], settings: Path = SETTINGS) -> list[str]:
    """Return which links are strict; one that is not there is not. Raises HostError."""
    for_all = _read(settings, "all")
    return [one for one in links if max(for_all, _read(settings, one)) == _STRICT]


def loosen(link: str, settings: Path = SETTINGS) -> bool:
    """Have a link take packets whose answers leave by another one; return whether it did not.

    Raises HostError.
    """
    with netlink.host_errors(f"link {link}"):
        switch = settings / link / "rp_filter"
        if switch.read_text(encoding="ascii").strip() == _LOOSE:
            return False
        switch.write_text(_LOOSE, encoding="ascii")
        return True


def _read(settings: Path, link: str) -> str:
    switch = settings / link / "rp_filter"
    try:
        return switch.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise HostError(f"{switch} cannot be read: {exc.strerror}") from exc
