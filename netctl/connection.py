"""Creates the REST client from the global flags and the saved login.

`~/.netctl/config.json` holds the token of a login at the authenticating proxy. Only the user can
read it, and it is sent over https only.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contivmodel.client_sync import RestClient
from netctl.failure import HELP, IO, REQUEST, CommandFailed

CONFIG: Final = Path(".netctl") / "config.json"
"""Relative to the user's home directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterConnection:
    """The netmaster of the global flags."""

    url: str
    insecure: bool

    def client(self) -> RestClient:
        """Return a client with the saved login, if any. Raises CommandFailed."""
        if not self.url.startswith(("http://", "https://")) or self.url.endswith("/"):
            raise CommandFailed("Error connecting to netmaster", HELP)
        token = saved_token(_config())
        if token is not None and not self.url.startswith("https://"):
            raise _config_error(
                "failed to set auth token: setting auth token requires a https auth_proxy URL"
            )
        return RestClient(self.url, token=token or "", insecure=self.insecure)

    def anonymous_client(self) -> RestClient:
        """Return a client without login, for resources that need none."""
        return RestClient(self.url, insecure=self.insecure)


def saved_token(path: Path) -> str | None:
    """Return the token of a configuration file; None without a file. Raises CommandFailed."""
    try:
        path.stat()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise CommandFailed(f"stat {path}: {_reason(exc)}", IO) from exc
    try:
        config = json.loads(path.read_bytes())
    except OSError as exc:
        raise _config_error(f"failed to read config file: open {path}: {_reason(exc)}") from exc
    except ValueError as exc:
        raise _config_error(f"failed to unmarshal JSON: {exc}") from exc
    token = config.get("token", "") if isinstance(config, dict) else None
    if not isinstance(token, str):
        raise _config_error('failed to unmarshal JSON: want {"token": "..."}')
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
