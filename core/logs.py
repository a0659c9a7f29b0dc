"""Log lines: events with fields, in the original's text form or as JSON, to stderr or syslog.

Call sites write `log.info("endpoint programmed", extra=fields(endpoint=..., network=...))`. The
text form is the original's logrus line `time="Nov 20 09:38:15.106224524" level=info msg="…"
key=value` (docs/original/netmaster-daemon.md §1); the JSON form is one object per line. Field names
of the project:

task, host, tenant, network, group, endpoint, container, address, mac, port, ofport, bridge, peer,
master, service, flag, key, revision, generation, flows, cards, count, seconds, rate, burst, error,
path, method, status, user, role, reason, version, policy, rule, action, protocol, source,
destination.
"""

import json
import logging
import logging.handlers
import sys
import urllib.parse
from datetime import datetime
from typing import Any, Final, TextIO

from core.errors import UsageError
from core.recent_logs import RecentLines

LEVELS: Final = {
    "PANIC": logging.CRITICAL,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
}
_GO_LEVEL: Final = {
    logging.CRITICAL: "fatal",
    logging.ERROR: "error",
    logging.WARNING: "warning",
    logging.INFO: "info",
    logging.DEBUG: "debug",
}
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
}


def fields(**named: object) -> dict[str, object]:
    """Return the `extra` of a log call; None values are left out."""
    return {name: value for name, value in named.items() if value is not None}


def extra_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields a call site attached to a record, in the order given."""
    return {k: v for k, v in record.__dict__.items() if k not in _STANDARD}


class TextFormatter(logging.Formatter):
    """The original's logrus text line with its full timestamp."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback if there is one."""
        # Local time without a zone, as the original writes it.
        when = datetime.fromtimestamp(record.created)  # noqa: DTZ006
        stamp = f"{when:%b} {when.day:2d} {when:%H:%M:%S}.{int(record.created % 1 * 1e9):09d}"
        level = _GO_LEVEL.get(record.levelno, record.levelname.lower())
        parts = [
            f'time="{stamp}"',
            f"level={level}",
            f"msg={json.dumps(record.getMessage(), ensure_ascii=False)}",
        ]
        parts += [f"{name}={_text(value)}" for name, value in extra_of(record).items()]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, msg, logger, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        when = datetime.fromtimestamp(record.created).astimezone()
        out: dict[str, Any] = {
            "time": when.isoformat(),
            "level": _GO_LEVEL.get(record.levelno, record.levelname.lower()),
            "msg": record.getMessage(),
            "logger": record.name,
        }
        out.update(extra_of(record))
        if record.exc_info:
            out["trace"] = self.formatException(record.exc_info)
        return json.dumps(out, default=str, ensure_ascii=False)


def setup(
    *,
    level: str = "INFO",
    as_json: bool = False,
    syslog_url: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Send the root logger's lines to `stream` (stderr) or to syslog (`proto://host:port`).

    Raises UsageError for an unknown level or an unusable syslog URL.
    """
    number = LEVELS.get(level.upper())
    if number is None:
        raise UsageError(f"not a valid logrus Level: {json.dumps(level)}")
    handler: logging.Handler = (
        logging.StreamHandler(stream or sys.stderr) if syslog_url is None else _syslog(syslog_url)
    )
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    recent = RecentLines()
    recent.setFormatter(TextFormatter())
    root.handlers[:] = [handler, recent]
    root.setLevel(number)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # aiohttp logs a traceback for each malformed request, so any client could fill the disk. The
    # client gets a 400 in any case.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


def _text(value: object) -> str:
    text = str(value)
    return (
        text
        if text and all(c.isalnum() or c in "._:/@-+" for c in text)
        else json.dumps(text, ensure_ascii=False)
    )


def _syslog(url: str) -> logging.Handler:
    import socket  # noqa: PLC0415 - only the few hosts that log to syslog need it

    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"udp", "tcp"} or not parts.hostname:
        raise UsageError(
            f"Failed parsing syslog spec {json.dumps(url)}: want udp://host:port or tcp://host:port"
        )
    kind = socket.SOCK_DGRAM if parts.scheme == "udp" else socket.SOCK_STREAM
    try:
        return logging.handlers.SysLogHandler((parts.hostname, parts.port or 514), socktype=kind)
    except (OSError, ValueError) as exc:
        raise UsageError(f"Failed connecting to syslog {json.dumps(url)}: {exc}") from exc
