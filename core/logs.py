"""Log lines: events with fields, in the original's text form or as JSON, to stderr or syslog.

Call sites write `log.info("endpoint programmed", extra=fields(endpoint=..., network=...))`. The
text form is the original's logrus line `time="…" level=info msg="…" key=value`
(docs/original/netmaster-daemon.md §1), with year and zone in its time; the JSON form is one object
per line. To the journal of systemd each line goes with its priority. Lines that repeat are limited
(`core.log_lines.repeats`). Field names of the project:

task, host, tenant, network, group, endpoint, container, address, mac, port, ofport, bridge, peer,
master, service, flag, object, key, revision, generation, flows, cards, count, seconds, rate, burst,
error, path, method, status, user, role, reason, version, policy, rule, action, protocol, source,
destination, pod, namespace, stages, repeated. What is done for a call from outside has its trace_id
too (`core.tracing.trace_context`).
"""

import json
import logging
import logging.handlers
import os
import re
import sys
import urllib.parse
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TextIO

from core.errors import UsageError
from core.log_lines.extra import extra_of
from core.log_lines.recent import RecentLines
from core.log_lines.repeats import RepeatLimit
from core.tracing.trace_context import trace_id

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
_PRIORITY: Final = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}
"""Level -> priority of syslog, which systemd reads in front of a line (sd-daemon(3))."""
JOURNAL_STREAM: Final = "JOURNAL_STREAM"
"""The variable in which systemd says which stream it connected to the journal (systemd.exec(5))."""
_BARE: Final = re.compile(r"[\w.:/@+-]+")
"""Text of a field that needs no quotation marks."""


def fields(**named: object) -> dict[str, object]:
    """Return the `extra` of a log call; None values are left out."""
    return {name: value for name, value in named.items() if value is not None}


def _told(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line: those of the call site, and the trace that it is of."""
    # A handler writes in the context of the call site.
    return extra_of(record) | fields(trace_id=trace_id())


class TextFormatter(logging.Formatter):
    """The original's logrus text line, its time in the form of logrus' own default (RFC 3339)."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[logging.LogRecord | None, str] = None, ""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback if there is one."""
        # Every line goes to two handlers. One with a traceback is not kept: that refers to much.
        kept, line = self._last
        if kept is record:
            return line
        line = self._formatted(record)
        self._last = (None, "") if record.exc_info else (record, line)
        return line

    def _formatted(self, record: logging.LogRecord) -> str:
        level = _GO_LEVEL.get(record.levelno, record.levelname.lower())
        parts = [
            f'time="{_stamp(record.created)}"',
            f"level={level}",
            f"msg={json.dumps(record.getMessage(), ensure_ascii=False)}",
        ]
        parts += [f"{name}={_text(value)}" for name, value in _told(record).items()]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, msg, logger, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        out: dict[str, Any] = {
            "time": _stamp(record.created),
            "level": _GO_LEVEL.get(record.levelno, record.levelname.lower()),
            "msg": record.getMessage(),
            "logger": record.name,
        }
        out.update(_told(record))
        if record.exc_info:
            out["trace"] = self.formatException(record.exc_info)
        return json.dumps(out, default=str, ensure_ascii=False)


class JournalFormatter(logging.Formatter):
    """Lines of another formatter, each with its priority in front, for the journal of systemd."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record, those of a traceback included."""
        # The journal has an entry for each line; one without a priority would be informational.
        mark = _mark(record.levelno)
        return "\n".join(mark + line for line in self._inner.format(record).split("\n"))


def _mark(level: int) -> str:
    return f"<{_PRIORITY.get(level, 6)}>"


def error_mark(stream: TextIO, journal: str) -> str:
    """Return what stands before an error on a stream, as long as no logs are set up."""
    return _mark(logging.ERROR) if goes_to_journal(stream, journal) else ""


def goes_to_journal(stream: TextIO, told: str) -> bool:
    """Tell whether a stream is the one that `told`, of JOURNAL_STREAM, names: device and inode."""
    # A process whose output is piped or redirected inherits the variable as well.
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return told == f"{found.st_dev}:{found.st_ino}"


def setup(
    *,
    level: str = "INFO",
    as_json: bool = False,
    syslog_url: str | None = None,
    stream: TextIO | None = None,
    journal: str = "",
) -> None:
    """Send the root logger's lines to `stream` (stderr) or to syslog (`proto://host:port`).

    `journal` is the value of JOURNAL_STREAM: lines that go there carry their priority.
    Raises UsageError for an unknown level or an unusable syslog URL.
    """
    number = LEVELS.get(level.upper())
    if number is None:
        raise UsageError(f"not a valid logrus Level: {json.dumps(level)}")
    stream = stream or sys.stderr
    handler: logging.Handler = (
        logging.StreamHandler(stream) if syslog_url is None else _syslog(syslog_url)
    )
    lines = JsonFormatter() if as_json else TextFormatter()
    marked = syslog_url is None and goes_to_journal(stream, journal)
    handler.setFormatter(JournalFormatter(lines) if marked else lines)
    # No line names its thread, process or place in the code ("Optimization" of logging's HOWTO).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - what the HOWTO says
    root = logging.getLogger()
    recent = RecentLines()
    recent.setFormatter(lines if isinstance(lines, TextFormatter) else TextFormatter())
    root.handlers[:] = [handler, recent]
    limit = RepeatLimit()
    for one in root.handlers:
        one.addFilter(limit)
    root.setLevel(number)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # aiohttp logs a traceback for each malformed request, so any client could fill the disk. The
    # client gets a 400 in any case.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


def _text(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _stamp(seconds: float) -> str:
    """Return a wall-clock time in RFC 3339, with microseconds and the zone of this machine."""
    whole, zone = _second(int(seconds))
    return f"{whole}.{int(seconds % 1 * 1_000_000):06d}{zone}"


@lru_cache(maxsize=2)
def _second(number: int) -> tuple[str, str]:
    """Return a second up to its fraction, and the zone behind: a leader logs hundreds in one."""
    text = datetime.fromtimestamp(number).astimezone().isoformat()
    length = len("2006-01-02T15:04:05")
    return text[:length], text[length:]


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
