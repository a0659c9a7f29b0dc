"""Reads the store of the original: etcd by its API v2, consul, or what their tools have saved.

In come an address or a text; out go keys and values, nothing is ever written. The original keeps
all of its keys under one prefix (docs/original/objdb-state.md). `netmaster.takeover` knows what
they mean. A text is one of three: the answer of `GET /v2/keys/contiv.io?recursive=true`, that of
consul's `GET /v1/kv/contiv.io/?recurse`, or what `consul kv export contiv.io/` prints.
"""

import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from core.errors import Invalid, StoreUnavailable, UsageError
from core.net import tls_trust
from core.outside_json import read_json

_ETCD: Final = "/v2/keys/contiv.io?recursive=true&quorum=true"
_CONSUL: Final = "/v1/kv/contiv.io/?recurse&consistent"
_LIMIT: Final = 30.0
"""Seconds without a byte of the answer."""
_SCHEMES: Final = frozenset({"http", "https"})


def read_etcd(url: str) -> dict[str, bytes]:
    """Return what an etcd holds, by its API v2. Raises UsageError, StoreUnavailable or Invalid."""
    answer = _get(url, _ETCD, {})
    if answer is None:
        return {}
    return parse(answer)


def read_consul(url: str, token: str = "") -> dict[str, bytes]:
    """Return what a consul holds. Raises UsageError, StoreUnavailable or Invalid."""
    answer = _get(url, _CONSUL, {"X-Consul-Token": token} if token else {})
    return {} if answer is None else parse(answer)


def parse(text: str) -> dict[str, bytes]:
    """Return the keys and values in a text of one of the three forms. Raises Invalid."""
    try:
        parsed = read_json(text)
        found = _of_etcd(parsed["node"]) if isinstance(parsed, dict) else _of_consul(parsed)
        return dict(found)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Invalid(
            "this is neither etcd's answer to GET /v2/keys/contiv.io?recursive=true nor what "
            "`consul kv export contiv.io/` prints"
        ) from exc


def _of_etcd(node: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.get("dir"):
            waiting.extend(one.get("nodes", ()))
        else:
            yield str(one["key"]), str(one["value"]).encode()


def _of_consul(entries: list[Mapping[str, Any]]) -> Iterator[tuple[str, bytes]]:
    for entry in entries:
        # The API and the command spell the names otherwise.
        one = {name.lower(): value for name, value in entry.items()}
        yield "/" + str(one["key"]).lstrip("/"), b64decode(one["value"] or "", validate=True)


def _get(url: str, path: str, headers: Mapping[str, str]) -> str | None:
    """Return the answer to a GET, None for one that says there is no such key."""
    scheme, _, rest = url.partition("://")
    if scheme not in _SCHEMES or not rest:
        raise UsageError(f"{url}: want http://host:port or https://host:port")
    request = urllib.request.Request(url.rstrip("/") + path, headers=dict(headers))  # noqa: S310 - checked above
    context = tls_trust.client_context() if scheme == "https" else None
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT, context=context) as answer:  # noqa: S310 - checked above
            return str(answer.read().decode())
    except urllib.error.HTTPError as exc:
        if exc.code == HTTPStatus.NOT_FOUND and _is_missing_key(exc.read()):
            return None
        hint = "; has etcd been started with --enable-v2?" if path == _ETCD else ""
        raise StoreUnavailable(f"{url}{path}: {exc.code} {exc.reason}{hint}") from exc
    except (OSError, ValueError) as exc:
        reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
        raise StoreUnavailable(f"{url}: {reason}") from exc


def _is_missing_key(body: bytes) -> bool:
    """Return whether a 404 is about the key: consul's has no text, etcd's its error 100."""
    try:
        return not body.strip() or read_json(body)["errorCode"] == 100
    except (ValueError, TypeError, KeyError):
        return False
