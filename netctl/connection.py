"""Creates the REST client from the global flags and the saved login, and objects with it.

`~/.netctl/config.json` holds the token of a login, at netmaster or at an authenticating proxy. Only
the user can read it, and it is sent over https only.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from core.errors import UsageError
from daemons.waiting import waiting
from netctl.commandline import PERIOD
from netctl.failure import HELP, IO, REQUEST, CommandFailed
from netctl.output import OutputFlags
from netctl.render import Json, ListFormat
from netctl.what_if import show_effects

if TYPE_CHECKING:
    import ssl

    from contivmodel.client_sync import RestClient

_PRINTED: Final = "netctl.printed"
"""In a context's `meta`: what was printed last."""

CONFIG: Final = Path(".netctl") / "config.json"
"""Relative to the user's home directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterConnection:
    """The netmasters of the global flags."""

    url: str
    """One URL, or several that are separated by commas."""
    insecure: bool
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    what_if: bool = False
    """Changes are not made; what each would do is printed."""
    if_absent: bool = False
    """An object that is to be created may be there already, if it is the same."""

    output: OutputFlags = field(default_factory=OutputFlags)
    """How the command prints what it finds."""

    def show_list(self, found: Sequence[Json], shape: ListFormat) -> None:
        """Print a list of objects."""
        _print(self.output.of_list(found, shape))

    def show_object(self, found: Json) -> None:
        """Print what an inspection found."""
        _print(self.output.of_object(found))

    def show_data(self, found: Any, plain: Callable[[], str]) -> None:
        """Print any data, by default as `plain` does."""
        _print(self.output.of_data(found, plain))

    def say(self, text: str) -> None:
        """Print that a change is made, if it is."""
        if text and not self.what_if:
            click.echo(text)

    def create(self, plural: str, key: str, body: Mapping[str, Any], saying: str = "") -> None:
        """Create an object and print `saying`, or that it is there already.

        Raises CommandFailed if one with other settings is there; that is looked for with
        `if_absent` alone, as the original's objects are replaced by what has the same name.
        """
        client = self.client()
        if not self.if_absent:
            client.write(plural, key, body)
        elif (there := client.create_if_absent(plural, key, body)) is not None:
            other = [name for name, value in body.items() if not _same(there.get(name), value)]
            if other:
                told = ", ".join(
                    f"{name} is {json.dumps(there.get(name))}, not {json.dumps(body[name])}"
                    for name in other
                )
                raise CommandFailed(f"{key} exists with other settings: {told}", REQUEST)
            click.echo(f"{key} exists already with these settings, nothing was changed")
            return
        self.say(saying)

    def client(self) -> "RestClient":
        """Return a client with the saved login, if any. Raises CommandFailed."""
        schemes = ("http://", "https://")
        if any(not one.startswith(schemes) or one.endswith("/") for one in self._urls):
            raise CommandFailed("Error connecting to netmaster", HELP)
        token = saved_token(_config())
        if token is not None and not self.is_private:
            raise _config_error(
                "failed to set auth token: setting auth token requires a https auth_proxy URL"
            )
        return self._client(token or "")

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way can read what is sent, whichever netmaster it goes to."""
        return all(one.startswith("https://") for one in self._urls)

    @property
    def _urls(self) -> list[str]:
        return [one.strip() for one in self.url.split(",")]

    def anonymous_client(self) -> "RestClient":
        """Return a client without login, for resources that need none."""
        return self._client("")

    def _client(self, token: str) -> "RestClient":
        # Imported here: help, versions of this program and refused words need no HTTP.
        from contivmodel.client_sync import RestClient  # noqa: PLC0415

        own = bool(self.tls_ca or self.tls_cert or self.tls_key)
        secure = self._context if own and not self.insecure else None
        return RestClient(
            self.url,
            token=token,
            insecure=self.insecure,
            secure=secure,
            what_if=show_effects if self.what_if else None,
            waiting=waiting,
        )

    def _context(self) -> "ssl.SSLContext":
        # Imported here: most commands use plain http, and `ssl` takes long to import.
        from daemons.certificates.tls import TlsFiles, client_context  # noqa: PLC0415

        files = TlsFiles(ca=self.tls_ca, cert=self.tls_cert, key=self.tls_key)
        try:
            return client_context(files)
        except UsageError as exc:
            raise CommandFailed(str(exc), IO) from exc


def _print(text: str) -> None:
    """Print the result of a command; of one that is repeated, when it changes."""
    told = click.get_current_context().meta
    if PERIOD in told:
        if told.get(_PRINTED) == text:
            return
        told[_PRINTED] = text
        if sys.stdout.isatty():
            click.clear()
    click.echo(text, nl=False)
    if PERIOD in told:
        sys.stdout.flush()


def _same(stored: object, given: object) -> bool:
    """Return whether a stored value is the given one; the order of a list does not count."""
    # An empty field is left out by netmaster.
    if isinstance(stored, list) and isinstance(given, (list, tuple)):
        return sorted(map(str, stored)) == sorted(map(str, given))
    return stored == given or not (stored or given)


def saved_token(path: Path) -> str | None:
    """Return the token of a configuration file; None without a file. Raises CommandFailed."""
    try:
        path.stat()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise CommandFailed(f"stat {path}: {_reason(exc)}", IO) from exc
    try:
        # The user's own file. `core.outside_json` would take longer to import than to do the rest.
        config = json.loads(path.read_bytes())
    except OSError as exc:
        raise _config_error(f"failed to read config file: open {path}: {_reason(exc)}") from exc
    except (ValueError, RecursionError) as exc:
        raise _config_error(f"failed to unmarshal JSON: {exc}") from exc
    token = config.get("token", "") if isinstance(config, dict) else None
    if not isinstance(token, str):
        raise _config_error('failed to unmarshal JSON: want {"token": "..."}')
    if not (token.isascii() and token.isprintable()):
        raise _config_error("its token has characters that no HTTP header can have: log in again")
    return token


def save_login(answer: bytes) -> None:
    """Save the proxy's answer to a login as the user's configuration file."""
    path = _config()
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            # The mode of `open` applies to new files only. Restrict an existing file before the
            # token is written to it.
            os.fchmod(file.fileno(), 0o600)
            file.truncate()
            file.write(answer)
    except OSError as exc:
        raise CommandFailed(f"open {path}: {_reason(exc)}", IO) from exc


def _config() -> Path:
    try:
        return Path.home() / CONFIG
    except RuntimeError as exc:
        raise CommandFailed("failed to detect HOME directory", IO) from exc


def _config_error(why: str) -> CommandFailed:
    return CommandFailed(f"error processing netctl config: {why}", REQUEST)


def _reason(exc: OSError) -> str:
    return (exc.strerror or str(exc)).lower()
