"""Refuses what the page of a stranger has a browser ask of a daemon in the name of its user.

A browser shows its user's certificate, and reaches addresses that are behind the firewall, for
whatever page is open. In come a request's method, path and headers; out comes the reason to refuse
it, or none. Pure. Used at the edge of netmaster's REST (`netmaster.api.http.server`) and of the
agents' (`netplugin.startup.inspect`). Programs send neither of the headers it looks at, and pass.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

from core.errors import ContivError

ORIGIN: Final = "Origin"
SITE: Final = "Sec-Fetch-Site"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE: Final = frozenset({"same-origin", "none"})
"""`none`: the user typed the address, or opened a bookmark."""
_LINK: Final = ("navigate", "document")
_LOCALHOST: Final = "localhost"
_SHOWN: Final = 200


class CrossSiteRequest(ContivError):
    """A browser sent the request for a page that is not this server's; nothing was changed."""

    http_status = 403


class RequestHeaders(Protocol):
    """The headers of a request, by names without regard to case."""

    def getall(self, key: str, default: Sequence[str], /) -> Sequence[str]:
        """Return all values of a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserPolicy:
    """Which pages may use a server.

    `trusted_origins` are those of pages elsewhere, as `https://tools.example.com`. `names` are
    names of this host; `pages` are prefixes of the paths to which any page may have a link.
    """

    trusted_origins: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    pages: tuple[str, ...] = ()

    def check(self, method: str, path: str, headers: RequestHeaders, *, secure: bool) -> None:
        """Check a request; `secure` says that it came by TLS. Raises CrossSiteRequest."""
        origins, sites = headers.getall(ORIGIN, ()), headers.getall(SITE, ())
        if origins and self.trusted_origins.issuperset(origins):
            return
        # Fetch Metadata says it for certain, also behind a proxy that changes the header Host. A
        # browser sends it to https and to localhost alone, so Origin is what other requests have.
        if sites:
            if not (_OWN_SITE.issuperset(sites) or self._is_link(method, path, headers)):
                raise _refused(f"{SITE}: {', '.join(sites)}"[:_SHOWN], origins)
        else:
            host = ", ".join(headers.getall("Host", ())).lower()
            if any(_place(origin) != host for origin in origins):
                raise _refused(f"Host: {host}"[:_SHOWN], origins)
        if origins and not secure and method not in SAFE_METHODS:
            self._check_names(origins, headers.getall("Host", ()))

    def _is_link(self, method: str, path: str, headers: RequestHeaders) -> bool:
        """Return whether the user followed a link to a page, which its site cannot look into."""
        how = (*headers.getall("Sec-Fetch-Mode", ()), *headers.getall("Sec-Fetch-Dest", ()))
        return method in {"GET", "HEAD"} and how == _LINK and path.startswith(self.pages)

    def _check_names(self, origins: Collection[str], hosts: Collection[str]) -> None:
        """Check the names by which a page reached the server to change something.

        A stranger's name may be given this server's address once its page is open (DNS rebinding),
        and then page and server are one site to the browser. With TLS no certificate has that name.
        """
        for name in map(_name, hosts):
            if not (_is_address(name) or "." not in name or name in self.names):
                raise _refused(f"{name[:_SHOWN]} may be anybody's name for this server", origins)


def _refused(why: str, origins: Collection[str]) -> CrossSiteRequest:
    page = ", ".join(origins)[:_SHOWN] or "another site"
    return CrossSiteRequest(
        f"the request comes from a page of {page} ({why}): open this server's own page, or name "
        "the page's origin in --trusted-origins of netmaster"
    )


def _place(origin: str) -> str:
    """Return host and port of an origin, as in the header Host; "" for `null` and what is none."""
    try:
        return urlsplit(origin.strip().lower()).netloc
    except ValueError:
        return ""


def _name(host: str) -> str:
    """Return the name in a header Host, without the port."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return name == _LOCALHOST or name.endswith(f".{_LOCALHOST}")
    return True


def origins_of(text: str) -> frozenset[str]:
    """Return the origins in a list with commas. Raises ValueError, which names the wrong one."""
    found = frozenset(filter(None, (one.strip().lower() for one in text.split(","))))
    for origin in found:
        scheme, _, place = origin.partition("://")
        if scheme not in {"http", "https"} or not place or _place(origin) != place:
            raise ValueError(f"{origin} is no origin, as https://tools.example.com")
    return found
